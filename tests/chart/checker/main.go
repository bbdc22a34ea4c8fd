// Checks what Python has no library for here: Kubernetes objects against JSON schemas, and PromQL expressions.
// Reads one JSON request from standard input and prints a JSON list of sentences, one for each thing that is wrong.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type document struct {
	Name   string `json:"name"`
	Schema string `json:"schema"` // a file, with the definition's place after #
	Object any    `json:"object"`
}

type request struct {
	Documents   []document        `json:"documents"`
	Expressions map[string]string `json:"expressions"`
}

type answer struct {
	Wrong   []string            `json:"wrong"`
	Metrics map[string][]string `json:"metrics"` // the series that each expression reads
}

func main() {
	var asked request
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, "the request is no JSON:", err)
		os.Exit(2)
	}
	said := answer{Wrong: []string{}, Metrics: map[string][]string{}}
	compiler := jsonschema.NewCompiler()
	for _, each := range asked.Documents {
		schema, err := compiler.Compile(each.Schema)
		if err == nil {
			err = schema.Validate(each.Object)
		}
		if err != nil {
			said.Wrong = append(said.Wrong, fmt.Sprintf("%s: %v", each.Name, err))
		}
	}
	for name, text := range asked.Expressions {
		parsed, err := parser.ParseExpr(text)
		if err != nil {
			said.Wrong = append(said.Wrong, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		said.Metrics[name] = selected(parsed)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		os.Exit(2)
	}
}

func selected(parsed parser.Expr) []string {
	names := []string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

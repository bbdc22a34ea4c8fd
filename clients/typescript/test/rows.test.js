import assert from "node:assert/strict";
import { test } from "node:test";

import { RowSet, elements, identity, members } from "../dist/rows.js";

test("the text of a row is kept, whatever is inside of it", () => {
  const text = ' { "a" : [1.50, {"b": "],}\\""}] , "\\u0062":null,"rows":[ {"x":1} ,{"x":"{"} ] } ';
  assert.deepEqual([...members(text)], [["a", '[1.50, {"b": "],}\\""}]'], ["b", "null"], ["rows", '[ {"x":1} ,{"x":"{"} ]']]);
  assert.deepEqual(elements(members(text).get("rows")), ['{"x":1}', '{"x":"{"}']);
  assert.deepEqual(elements("[]"), []);
});

test("numbers are equal by their value, with all of their digits", () => {
  for (const [one, other] of [["1.0", "1.00"], ["0", "-0.0"], ["1e3", "1000"], ["0.0010", "1E-3"], ["-12.50", "-12.5"]]) {
    assert.equal(identity(`{"n":${one}}`), identity(`{ "n" : ${other} }`), `${one} ${other}`);
  }
  for (const [one, other] of [["9007199254740992", "9007199254740993"], ["0.1", "0.10000000000000001"], ["1", "-1"], ["10", "1"], ['"1.0"', '"1.00"']]) {
    assert.notEqual(identity(`{"n":${one}}`), identity(`{"n":${other}}`), `${one} ${other}`);
  }
});

test("P14: rows are a set in which NULL equals NULL", () => {
  const set = new RowSet(JSON.parse);
  set.replace(['{"a":null}', '{"a":null}', '{"a":1}']);
  assert.deepEqual(set.rows, [{ a: null }, { a: 1 }]);
  assert.equal(set.apply(['{"a":1}'], []), false, "what is there cannot enter");
  assert.equal(set.apply([], ['{"a":2}']), false, "what is not there cannot leave");
  assert.equal(set.apply(['{"a":2}'], ['{"a":null}']), true);
  assert.deepEqual(set.rows, [{ a: 1 }, { a: 2 }]);
});

test("columns of one name do not make two rows one", () => {
  const set = new RowSet(JSON.parse);
  set.replace(['{"id":1,"id":2}', '{"id":3,"id":2}']);
  assert.equal(set.rows.length, 2);
});

test("what came and went before the reader looked is not told to it", () => {
  const set = new RowSet(JSON.parse);
  set.replace(['{"a":1}', '{"a":2}']);
  const [first] = set.take().rows;
  set.apply(['{"a":3}'], ['{"a":1}']);
  set.apply(['{"a":1}'], ['{"a":3}', '{"a":2}']);
  assert.deepEqual(set.take(), { inserted: [], deleted: [{ a: 2 }], rows: [{ a: 1 }] });
  assert.equal(set.rows[0], first, "a row that stays is the same object");
});

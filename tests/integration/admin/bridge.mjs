// A browser for tests in Python: each line of stdin is a command as JSON, each line of stdout its answer.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(`${process.env.NODE_HOME}/package.json`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// --no-sandbox: the tests run as root, against a page of our own.
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
// bypassCSP stays off: the page must work under its own policy; axe runs in a world of its own.
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
page.setDefaultTimeout(30_000);
const complaints = [], requests = [];
page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
page.on('pageerror', (error) => complaints.push(String(error)));
page.on('request', (request) => requests.push({ url: request.url(), method: request.method() }));

async function checked() {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const world = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id, worldName: 'axe' });
  const run = async (expression) => {
    const answer = await session.send('Runtime.evaluate', { expression, contextId: world.executionContextId, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) throw new Error(JSON.stringify(answer.exceptionDetails));
    return answer.result.value;
  };
  await run(axe + ';0');
  const found = await run('axe.run().then((all) => all.violations.map((one) => ({ id: one.id, impact: one.impact, at: one.nodes.map((node) => node.html.slice(0, 200) + " " + node.failureSummary.slice(0, 300)) })))');
  await session.detach();
  return found;
}

const commands = {
  open: ({ url }) => page.goto(url).then((answer) => ({ status: answer.status(), headers: answer.headers() })),
  hash: ({ to }) => page.evaluate((place) => { location.hash = place; }, to),
  fill: ({ label, text }) => page.getByLabel(label, { exact: true }).fill(text),
  click: ({ role, name }) => page.getByRole(role, { name, exact: true }).first().click(),
  press: ({ key }) => page.keyboard.press(key),
  see: ({ text }) => page.getByText(text, { exact: false }).first().waitFor(),
  text: ({ selector }) => page.locator(selector).allInnerTexts(),
  run: ({ code }) => page.evaluate(code),
  scheme: ({ to }) => page.emulateMedia({ colorScheme: to }),
  size: ({ width, height }) => page.setViewportSize({ width, height }),
  shot: ({ path }) => page.screenshot({ path, animations: 'disabled' }).then(() => null),
  axe: () => checked(),
  cookies: () => page.context().cookies(),
  complaints: () => complaints.splice(0),
  requests: () => requests.splice(0),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...rest } = JSON.parse(line);
  let answer;
  try { answer = { ok: (await commands[name](rest)) ?? null }; } catch (error) { answer = { error: String(error).slice(0, 3000) }; }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();

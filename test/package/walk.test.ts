import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { stepsOf } from './support/walk/page.js';
import { Terminal } from './support/walk/terminal.js';
import { expectWithin, tableOf, walk } from './support/walk/walk.js';
import { environmentOf } from './support/run-command.js';

const PAGE = `# Greeting

Not a step.

## 1. Greet

**greet.mjs**

\`\`\`ts
console.log(\`hello \${process.argv[2]} \${process.pid}\`);
\`\`\`

\`\`\`sh
NAME=world
\`\`\`

\`\`\`sh
node greet.mjs $NAME
\`\`\`

\`\`\`text
hello world …
\`\`\`

## 2. Respond

\`\`\`sh
printf 'a line of a log\\nHTTP/1.1 201 Created\\r\\nDate: today\\r\\n\\r\\n{"name":"%s"}' $NAME
\`\`\`

\`\`\`http
HTTP/1.1 201 Created
Date: …

{"name":"world"}
\`\`\`
`;

describe('A walk along a page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempotency-walk-'));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function walkPage(page: string) {
    const terminal = new Terminal(mkdtempSync(join(folder, 'page-')), environmentOf(undefined));
    try {
      return await walk(stepsOf(page), { terminal, localize: (text) => text, outputTimeoutMs: 0 });
    } finally {
      terminal.close();
    }
  }

  it('does what the page says, and has the time of each step', async () => {
    const laps = await walkPage(PAGE);
    expect(laps).toEqual([
      { step: '1. Greet', machineMs: expect.any(Number), readerMs: 34_800 },
      { step: '2. Respond', machineMs: expect.any(Number), readerMs: 15_700 },
    ]);
  });

  const greeting = '```text\nhello world …\n```';
  it.each([
    ['a file is missing', /\*\*greet\.mjs\*\*[^]*?```\n\n/, '', 'A command failed'],
    ['a command is missing', '```sh\nNAME=world\n```\n\n', '', 'hello undefined'],
    ['a command fails', 'NAME=world', 'false', 'A command failed'],
    ['a response is another', '201 Created', '200 OK', 'The page shows another output'],
    ['a response has one header more', 'Date: …', 'Date: …\nETag: …', 'another output'],
    ['an output has one line less', greeting, '```text\n…\nhello world 1\n```', 'another output'],
    ['a file has no name', '**greet.mjs**\n\n', '', 'neither run nor written'],
  ])('fails where %s', async (_, part, instead, message) => {
    await expect(walkPage(withMistake(part, instead))).rejects.toThrow(message);
  });

  it('takes a line of "…" for any lines', async () => {
    const page = withMistake(greeting, '```text\n…\nhello world …\n…\n```');
    await expect(walkPage(page)).resolves.toHaveLength(2);
  });

  it('fails where the clock of a step is beyond its limit', () => {
    const laps = [
      { step: '1. Greet', machineMs: 30_000, readerMs: 29_000 },
      { step: '2. Respond', machineMs: 30_000, readerMs: 32_000 },
    ];
    expectWithin(laps, { '1.': 1 });
    expect(() => expectWithin(laps, { '1.': 1, '2.': 2 })).toThrow('"2." is done after 2:01');
    expect(() => expectWithin(laps, { '3.': 9 })).toThrow('no step "3."');
    expect(tableOf('a page', laps)).toBe(
      [
        'a page      machine   reader    clock',
        '1. Greet       0:30     0:29     0:59',
        '2. Respond     0:30     0:32     2:01',
      ].join('\n'),
    );
  });
});

function withMistake(part: RegExp | string, instead: string): string {
  const page = PAGE.replace(part, instead);
  if (page === PAGE) throw new Error(`The page has no ${String(part)}`);
  return page;
}

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { outsideEnvironment } from '../../test/support/processes/processes.js';
import { projectRoot } from '../../test/support/project-root.js';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';

const folder = join(projectRoot, 'examples');
const examples = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'support')
  .map(({ name }) => name);

/** The effects that each one prints in its last line. The readme's listens, and has a test of its own. */
const EFFECTS: Readonly<Record<string, string>> = {
  payments: 'asked: 2, charged: 1',
  'public-routes': 'checked out: ann@example.com, ben@example.com',
  'rate-limits': 'charged: 10',
  saga: 'effects: reserve, charge, ship',
  tenants: 'placed: acme: book, globex: book',
  webhooks: 'extended: sub_1',
};

describe('npm run example', () => {
  it.each(Object.entries(EFFECTS))(
    '-- %s ends, and has each effect once',
    async (name, effects) => {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [...typescriptNodeOptions, join(folder, 'run.ts'), name],
        { env: outsideEnvironment() },
      );
      expect(stdout.trim().split('\n').at(-1)).toBe(effects);
    },
    60_000,
  );

  it('runs no other but that of the readme', () => {
    const runnable = examples.filter((name) => existsSync(join(folder, name, 'main.ts')));
    expect(runnable.sort()).toEqual([...Object.keys(EFFECTS), 'readme'].sort());
  });
});

describe('The table of the examples', () => {
  it('has a row for each', () => {
    const page = readFileSync(join(folder, 'README.md'), 'utf8');
    const rows = [...page.matchAll(/^\| \[([a-z-]+)\]\(\1\) /gm)].map(([, name]) => name);
    expect(rows).toEqual(examples.sort());
  });
});

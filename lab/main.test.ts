import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { outsideEnvironment } from '../test/support/processes/processes.js';
import { projectRoot } from '../test/support/project-root.js';
import { typescriptNodeOptions } from '../test/support/typescript/node-options.js';

function lab(...args: string[]) {
  const program = join(projectRoot, 'lab/main.ts');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...typescriptNodeOptions, program, ...args],
    { encoding: 'utf8', env: outsideEnvironment() },
  );
  return { status, stdout, stderr };
}

describe('npm run lab', () => {
  it('hands a tool what follows its name, which may be of two words', () => {
    const { status, stdout } = lab('measure', 'telemetry', '--help');
    expect(stdout).toMatch(/^npm run lab -- measure telemetry/);
    expect(status).toBe(0);
  });

  it.each(['mesure telemetry', 'bench chek', 'measure'])(
    'has no "%s", and says what there is',
    (verb) => {
      const { status, stdout, stderr } = lab(...verb.split(' '));
      expect(stderr).toBe(`There is no "${verb}".\n\n`);
      expect(stdout).toMatch(/\n {2}bench check +the same of two commits/);
      expect(status).toBe(2);
    },
  );
});

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { outsideEnvironment } from '../../test/support/processes/processes.js';
import { projectRoot } from '../../test/support/project-root.js';
import { typescriptNodeOptions } from '../../test/support/typescript/node-options.js';
import { recorded } from './mistakes/recorded.js';
import type { Replay } from './mistakes/replay.js';

describe('the simulation', () => {
  let replays: ReadonlyMap<string, Replay>;

  beforeAll(() => {
    const program = join(projectRoot, 'lab/simulate/mistakes/replay.ts');
    const text = execFileSync(process.execPath, [...typescriptNodeOptions, program], {
      encoding: 'utf8',
      env: outsideEnvironment(),
      maxBuffer: 2 ** 26,
    });
    const all = text.trim().split('\n');
    replays = new Map(
      all.map((line) => JSON.parse(line) as Replay).map((replay) => [replay.mistake, replay]),
    );
  }, 600_000);

  it.each(recorded())('objects when $mistake', ({ mistake, objection }) => {
    expect(replays.get(mistake)).toMatchObject({
      withMistake: expect.arrayContaining([objection]),
      without: [],
    });
  });
});

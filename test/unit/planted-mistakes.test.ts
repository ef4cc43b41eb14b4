import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { BROKEN_STORES } from '../conformance/broken-stores.js';
import { MUTANTS as MESSAGES } from '../faults/messages/mutants.js';
import { MUTANTS as SCENARIOS } from '../faults/mutants.js';
import { LUA_MISTAKES, SQL_MISTAKES } from '../integration/differential/mutants.js';
import { MUTANTS as WORKERS } from '../../lab/faults/worker/mutants.js';
import { MISTAKES as SIMULATED } from '../../lab/simulate/mistakes/index.js';
import { recorded } from '../../lab/simulate/mistakes/recorded.js';
import type { PlantedMistake } from '../support/planted/planted-mistake.js';
import { projectRoot } from '../support/project-root.js';

/**
 * The mistakes that mutants.all.test.ts of their folders plant. Those of the simulation are apart: which of them it finds
 * in `npm test` depends on its seed. What a suite plants in itself is not listed: forbidden imports, parsers that are not
 * linear, samples that do not compile, replies taken for another's.
 */
const PLANTED: readonly PlantedMistake[] = [
  ...[LUA_MISTAKES, SQL_MISTAKES, BROKEN_STORES, SCENARIOS, MESSAGES].flat(),
  ...Object.entries(WORKERS).map(([mistake, mutant]) => ({ mistake, ...mutant })),
];

it('each planted mistake has a unique name, and names an existing suite', () => {
  const names = PLANTED.map(({ mistake, suite }) => `${suite}: ${mistake}`);
  expect(new Set(names).size).toBe(names.length);
  const missing = PLANTED.filter(({ suite }) => !existsSync(join(projectRoot, suite)));
  expect(missing).toEqual([]);
});

it('each text that the simulation replaces stands in its file once', () => {
  const unplantable = SIMULATED.filter(({ file, change: [original] }) => {
    const text = readFileSync(join(projectRoot, file), 'utf8');
    return text.split(original).length !== 2;
  });
  expect(unplantable).toEqual([]);
});

it('the simulation has found each mistake, except those that are harmless', () => {
  const found = new Set(recorded().map(({ mistake }) => mistake));
  const missed = SIMULATED.filter(({ mistake, harmless }) => !harmless && !found.has(mistake));
  expect(missed.map(({ mistake }) => mistake)).toEqual([]);
});

it('each mistake that the simulation has found is still planted', () => {
  const planted = SIMULATED.map(({ mistake }) => mistake);
  expect(recorded().filter(({ mistake }) => !planted.includes(mistake))).toEqual([]);
});

it('at least seven in ten planted mistakes are caught by a suite that npm test runs', () => {
  const onPush = PLANTED.filter(({ suite }) => !suite.endsWith('.all.test.ts'));
  expect(onPush.length / PLANTED.length).toBeGreaterThanOrEqual(0.7);
});

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { BROKEN_STORES } from '../conformance/broken-stores.js';
import { MUTANTS as MESSAGES } from '../faults/messages/mutants.js';
import { MUTANTS as SCENARIOS } from '../faults/mutants.js';
import { LUA_MISTAKES, SQL_MISTAKES } from '../integration/differential/mutants.js';
import { MUTANTS as WORKERS } from '../lab/faults/worker/mutants.js';
import type { PlantedMistake } from '../support/planted/planted-mistake.js';
import { projectRoot } from '../support/project-root.js';

/**
 * The mistakes that mutants.all.test.ts of their folders plant. What a suite plants in itself is not listed: forbidden
 * imports, parsers that are not linear, samples that do not compile, replies taken for another's.
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

it('at least seven in ten planted mistakes are caught by a suite that npm test runs', () => {
  const onPush = PLANTED.filter(({ suite }) => !suite.endsWith('.all.test.ts'));
  expect(onPush.length / PLANTED.length).toBeGreaterThanOrEqual(0.7);
});

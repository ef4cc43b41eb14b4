import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { MISTAKES as SIMULATED } from '../../lab/simulate/mistakes/index.js';
import { recorded } from '../../lab/simulate/mistakes/recorded.js';
import { projectRoot } from '../support/project-root.js';

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

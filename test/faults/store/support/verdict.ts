import { inspect, isDeepStrictEqual } from 'node:util';
import type { Scene } from './scene.js';

/** Runs a scene and returns its objections; none if all was well. */
export type Scenario = (scene: Scene) => Promise<string[]>;

/** Collects the objections of a scenario. */
export class Verdict {
  readonly objections: string[] = [];

  expect(what: string, actual: unknown, expected: unknown): void {
    if (isDeepStrictEqual(actual, expected)) return;
    this.objections.push(`${what}: ${inspect(actual)} instead of ${inspect(expected)}`);
  }
}

/** Includes the ledger's own objections. */
export function scenario(runSteps: (scene: Scene, verdict: Verdict) => Promise<void>): Scenario {
  return async (scene) => {
    const verdict = new Verdict();
    await runSteps(scene, verdict);
    return [...verdict.objections, ...scene.objections()];
  };
}

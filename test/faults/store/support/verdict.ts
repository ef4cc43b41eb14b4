import { inspect, isDeepStrictEqual } from 'node:util';
import type { Scene } from './scene.js';

/** Plays a scene and says what was not as it should have been; nothing where all was well. */
export type Scenario = (scene: Scene) => Promise<string[]>;

/** Gathers what a scenario objects to. */
export class Verdict {
  readonly objections: string[] = [];

  expect(what: string, actual: unknown, expected: unknown): void {
    if (isDeepStrictEqual(actual, expected)) return;
    this.objections.push(`${what}: ${inspect(actual)} instead of ${inspect(expected)}`);
  }
}

/** The ledger's own objections are part of it. */
export function scenario(play: (scene: Scene, verdict: Verdict) => Promise<void>): Scenario {
  return async (scene) => {
    const verdict = new Verdict();
    await play(scene, verdict);
    return [...verdict.objections, ...scene.objections()];
  };
}

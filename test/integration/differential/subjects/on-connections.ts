import type { Observation, Subject } from '../compare.js';
import type { Step } from '../step.js';

/** A store on a connection of its own, whose clock each step sets. */
export interface ClockedStore {
  takeAll(
    steps: readonly Step[],
    isExpected: (at: number, observation: Observation) => boolean,
  ): Promise<Observation[]>;
  close(): Promise<void>;
}

/** Runs `work` with several stores, each of which takes the next sequence; then closes them. */
export async function onConnections<Result>(
  stores: readonly ClockedStore[],
  work: (subject: Subject) => Promise<Result>,
): Promise<Result> {
  try {
    return await work(async (sequences, isExpected) => {
      const observed: Observation[][] = [];
      const left = sequences.entries();
      const takeSome = async (store: ClockedStore) => {
        for (const [sequence, steps] of left) {
          observed[sequence] = await store.takeAll(steps, (at, observation) =>
            isExpected(sequence, at, observation),
          );
        }
      };
      await Promise.all(stores.map(takeSome));
      return observed;
    });
  } finally {
    await Promise.all(stores.map((store) => store.close()));
  }
}

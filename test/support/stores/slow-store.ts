import { setTimeout as pause } from 'node:timers/promises';
import { memoryStore } from 'nestjs-idempotency/memory';
import { FaultyStore, type Fault } from './faulty-store.js';

const LATENCY_MS = 10;

const slowly: Fault = async (execute) => {
  await pause(LATENCY_MS);
  return execute();
};

/** A store in another process, as far as its timing goes; faults can be planned on top. */
export function slowStore(): FaultyStore {
  const store = new FaultyStore(memoryStore());
  store.always(slowly, 'begin', 'extend', 'complete', 'release');
  return store;
}

import type { StoreUnderTest } from 'nestjs-idempotency/testing/store';
import { SetClock, SqliteFolder } from '../support/sqlite/sqlite-file.js';

/** In a file of its own. */
export const sqliteUnderTest: StoreUnderTest = {
  name: 'SqliteIdempotencyStore',
  create: () => {
    const folder = new SqliteFolder();
    const time = new SetClock();
    const store = folder.open({}, time.clock);
    const clock = { now: () => time.nowMs, step: (ms: number) => void (time.nowMs += ms) };
    const dispose = async () => {
      await store.close();
      folder.remove();
    };
    return { store, clock, dispose };
  },
};

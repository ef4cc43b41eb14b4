import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { postgresStore } from 'nestjs-idempotency/postgres';
import {
  deletionFailed,
  DeletionSchedule,
  type DeleteFrom,
  type DeletionRound,
} from '../../support/internals/postgres.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const emitWarning = jest.spyOn(process, 'emitWarning');
const deleteFrom = jest.fn<DeleteFrom>();
const onDeleted = jest.fn();
const onDeletionError = jest.fn();

beforeEach(() => {
  jest.useFakeTimers();
  // Nothing is left out of the interval.
  jest.spyOn(Math, 'random').mockReturnValue(1);
  emitWarning.mockReturnValue(undefined);
});
afterEach(() => {
  jest.useRealTimers();
  jest.resetAllMocks();
});

function round(changes: { batches?: number; reached?: number } = {}): DeletionRound {
  const { batches = 1, reached = 0 } = changes;
  return { report: { deleted: 7, batches, longestBatchMs: 3, tookMs: 4 }, reached };
}

function started(listeners = { onDeleted, onDeletionError }): DeletionSchedule {
  const interval = { interval: MINUTE_MS, batchSize: 9, pause: 8 };
  const schedule = new DeletionSchedule(deletionFailed, deleteFrom, interval, listeners);
  schedule.start();
  return schedule;
}

/** The start of each round. */
function beginnings(): number[] {
  return deleteFrom.mock.calls.map(([from]) => from);
}

describe('The deletion of expired records', () => {
  it('does not wait for a listener, and reports one that rejects', async () => {
    deleteFrom.mockResolvedValue(round());
    onDeleted.mockReturnValue(Promise.reject(new Error('planned: deleted')));
    onDeletionError.mockReturnValue(Promise.reject(new Error('planned: notified')));
    started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(onDeletionError.mock.calls).toMatchObject([[{ message: 'planned: deleted' }]]);
    expect(emitWarning.mock.calls).toMatchObject([
      ['Expired records are not deleted: planned: notified', {}],
    ]);
  });

  it('runs every minute, the first time after one', async () => {
    deleteFrom.mockResolvedValue(round());
    started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS - 1);
    expect(deleteFrom).not.toHaveBeenCalled();
    await jest.advanceTimersByTimeAsync(1);
    expect(deleteFrom).toHaveBeenCalledTimes(1);
    await jest.advanceTimersByTimeAsync(9 * MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(10);
  });

  it('runs earlier by up to half of the interval, at random', async () => {
    jest.mocked(Math.random).mockReturnValue(0);
    deleteFrom.mockResolvedValue(round());
    started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS / 2 - 1);
    expect(deleteFrom).not.toHaveBeenCalled();
    await jest.advanceTimersByTimeAsync(1);
    expect(deleteFrom).toHaveBeenCalledTimes(1);
  });

  it('starts once, however often the store is opened', async () => {
    deleteFrom.mockResolvedValue(round());
    started().start();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(1);
  });

  it('runs at the pace of its options', async () => {
    deleteFrom.mockResolvedValue(round());
    started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(deleteFrom.mock.calls[0]?.[1]).toMatchObject({ batchSize: 9, pause: 8 });
  });

  it('never has two rounds in progress', async () => {
    let finish: (round: DeletionRound) => void = () => undefined;
    deleteFrom.mockReturnValue(new Promise((resolve) => (finish = resolve)));
    started();
    await jest.advanceTimersByTimeAsync(5 * MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(1);
    finish(round());
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(2);
  });

  it('continues where the last round ended, and periodically restarts with the oldest', async () => {
    deleteFrom.mockResolvedValueOnce(round({ reached: 100 }));
    // It found nothing, and another process was deleting.
    deleteFrom.mockResolvedValueOnce(round({ reached: 100 }));
    deleteFrom.mockResolvedValueOnce(round({ batches: 0, reached: 100 }));
    deleteFrom.mockResolvedValue(round({ reached: 200 }));
    started();
    await jest.advanceTimersByTimeAsync(5 * MINUTE_MS);
    expect(beginnings()).toEqual([0, 100, 100, 100, 200]);
    await jest.advanceTimersByTimeAsync(HOUR_MS);
    expect(beginnings().filter((from) => from === 0)).toHaveLength(2);
  });

  it('does not stay with the oldest when none of them were left', async () => {
    deleteFrom.mockResolvedValueOnce(round({ reached: 100 }));
    deleteFrom.mockImplementation((from) => Promise.resolve(round({ reached: from })));
    started();
    await jest.advanceTimersByTimeAsync(HOUR_MS + 2 * MINUTE_MS);
    expect(beginnings().slice(-2)).toEqual([0, 100]);
  });
});

describe('A listener for metrics', () => {
  it('is notified of each round', async () => {
    deleteFrom.mockResolvedValue(round());
    started();
    await jest.advanceTimersByTimeAsync(2 * MINUTE_MS);
    const report = { deleted: 7, batches: 1, longestBatchMs: 3, tookMs: 4 };
    expect(onDeleted.mock.calls).toEqual([[report], [report]]);
  });

  it('is not notified of another process’s round', async () => {
    deleteFrom.mockResolvedValue(round({ batches: 0 }));
    started();
    await jest.advanceTimersByTimeAsync(2 * MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(2);
    expect(onDeleted).not.toHaveBeenCalled();
  });
});

describe('A round that fails', () => {
  it('is reported once until one succeeds, and the next one follows', async () => {
    const failure = new Error('no connection');
    deleteFrom.mockRejectedValueOnce(failure).mockRejectedValueOnce(failure);
    deleteFrom.mockResolvedValueOnce(round()).mockRejectedValueOnce(failure);
    deleteFrom.mockResolvedValue(round());
    started();
    await jest.advanceTimersByTimeAsync(2 * MINUTE_MS);
    expect(onDeletionError.mock.calls).toEqual([[failure]]);
    await jest.advanceTimersByTimeAsync(3 * MINUTE_MS);
    expect(onDeletionError.mock.calls).toEqual([[failure], [failure]]);
    expect(deleteFrom).toHaveBeenCalledTimes(5);
  });

  it('is a process warning without a listener', async () => {
    deleteFrom.mockRejectedValue(new Error('no connection'));
    started({} as never);
    await jest.advanceTimersByTimeAsync(2 * MINUTE_MS);
    expect(emitWarning.mock.calls).toEqual([
      [
        'Expired records are not deleted: no connection',
        { type: 'IdempotencyWarning', code: 'IDEMPOTENCY_POSTGRES_DELETION' },
      ],
    ]);
  });

  it.each([
    ['onDeleted', () => deleteFrom.mockResolvedValue(round()), onDeletionError],
    ['onDeletionError', () => deleteFrom.mockRejectedValue(new Error('down')), emitWarning],
  ])('because %s throws stops nothing, and is reported', async (listener, runSteps, reported) => {
    runSteps();
    const listeners = { onDeleted, onDeletionError };
    listeners[listener as keyof typeof listeners].mockImplementation(() => {
      throw new Error('a mistake of the application');
    });
    started();
    await jest.advanceTimersByTimeAsync(2 * MINUTE_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(2);
    expect(String(reported.mock.calls[0]?.[0])).toContain('a mistake of the application');
  });
});

describe('When the store is closed', () => {
  it('no further round starts, not after a pending one either', async () => {
    const schedule = started();
    await schedule.stop();
    let finish: (round: DeletionRound) => void = () => undefined;
    deleteFrom.mockReturnValue(new Promise((resolve) => (finish = resolve)));
    const busy = started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    const stopping = busy.stop();
    finish(round());
    await stopping;
    await jest.advanceTimersByTimeAsync(HOUR_MS);
    schedule.start();
    await jest.advanceTimersByTimeAsync(HOUR_MS);
    expect(deleteFrom).toHaveBeenCalledTimes(1);
  });

  it('the pending round is stopped, and its batch is awaited', async () => {
    let finish: (round: DeletionRound) => void = () => undefined;
    deleteFrom.mockReturnValue(new Promise((resolve) => (finish = resolve)));
    const schedule = started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    const signal = deleteFrom.mock.calls[0]?.[1].signal;
    expect(signal?.aborted).toBe(false);
    let isStopped = false;
    const stopping = schedule.stop().then(() => (isStopped = true));
    expect(signal?.aborted).toBe(true);
    await jest.advanceTimersByTimeAsync(500);
    expect(isStopped).toBe(false);
    finish(round());
    await stopping;
  });

  it('a server that does not reply is not awaited, and its failure is not reported', async () => {
    let fail: (error: Error) => void = () => undefined;
    deleteFrom.mockReturnValue(new Promise((_, reject) => (fail = reject)));
    const schedule = started();
    await jest.advanceTimersByTimeAsync(MINUTE_MS);
    const stopping = schedule.stop();
    await jest.advanceTimersByTimeAsync(1_000);
    await stopping;
    fail(new Error('the store is closed'));
    await jest.advanceTimersByTimeAsync(HOUR_MS);
    expect(onDeletionError).not.toHaveBeenCalled();
    expect(deleteFrom).toHaveBeenCalledTimes(1);
  });
});

describe('The options of the deletion', () => {
  const store = (options: object) => () => postgresStore({ url: 'postgres://h/d', ...options });

  it.each([
    [{ deleteExpired: true }, '"deleteExpired" must be false or an object with settings, but'],
    [{ deleteExpired: null }, '"deleteExpired" must be false or an object with settings, but'],
    [
      { deleteExpired: { intervalMs: 1 } },
      '"deleteExpired.intervalMs" is not an option of postgresStore. Did you mean "deleteExpired.interval"?',
    ],
    [{ deleteExpired: { interval: 99 } }, "must be a duration from '100ms' to '24h'"],
    [{ deleteExpired: { batchSize: 0 } }, '"deleteExpired.batchSize" must be an integer from 1'],
    [{ deleteExpired: { pause: 0.5 } }, `"deleteExpired.pause" must be a duration from '0ms'`],
    [{ onDeleted: 1 }, 'The option "onDeleted" must be a function, but it is 1'],
    [{ onDeletionError: 'log' }, 'The option "onDeletionError" must be a function'],
  ])('reject %j', (options, message) => {
    expect(store(options)).toThrow(message);
  });

  it.each([
    {},
    { deleteExpired: false },
    { deleteExpired: {} },
    { deleteExpired: { interval: 100, batchSize: 1, pause: 0 } },
    { onDeleted: () => undefined, onDeletionError: () => undefined },
  ])('accept %j', (options) => {
    expect(store(options)).not.toThrow();
  });
});

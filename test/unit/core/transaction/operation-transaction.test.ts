import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  OperationTransaction,
  UnitOfWork,
  type OpenTransaction,
  type TransactionOptions,
} from '../../../support/internals/core.js';
import { StandingClock } from '../../../support/clocks/standing-clock.js';
import { Gate } from '../../../support/waiting/gate.js';

const OPEN_WITHIN_MS = 2_000;
const END_WITHIN_MS = 500;

/** Opens transactions on one connection; notes how each ends. */
class ScriptedUnitOfWork extends UnitOfWork {
  readonly connection = new AbortController();
  /** Passed before a transaction ends. */
  readonly end = new Gate();
  readonly notes: string[] = [];
  readonly options: TransactionOptions[] = [];

  async run<Result>(
    options: TransactionOptions,
    work: (transaction: OpenTransaction) => Promise<Result>,
  ): Promise<Result> {
    this.options.push(options);
    const transaction = {
      handle: `handle ${this.options.length}`,
      lost: this.connection.signal,
      cut: () => void this.notes.push('cut'),
    };
    const note = async (how: string) => {
      await this.end.pass();
      this.notes.push(how);
    };
    try {
      const result = await work(transaction);
      await note('committed');
      return result;
    } catch (error) {
      await note('rolled back');
      throw error;
    }
  }

  isConflict(): boolean {
    throw new Error('planned');
  }

  isInterruption(error: unknown): boolean {
    return error === 'interruption';
  }

  isReplyMismatch(): boolean {
    return Promise.resolve(true) as unknown as boolean;
  }
}

describe('the transaction of an operation', () => {
  let clock: StandingClock;
  let unitOfWork: ScriptedUnitOfWork;
  let lost: number;
  let failed: string[];
  let transaction: OperationTransaction;
  const open = () => transaction.open(60_000, () => Promise.resolve());
  const nothing = () => Promise.resolve();

  beforeEach(() => {
    clock = new StandingClock();
    unitOfWork = new ScriptedUnitOfWork();
    lost = 0;
    failed = [];
    const options = {
      operation: 'Payments.create',
      isolation: 'default',
      openWithinMs: OPEN_WITHIN_MS,
      endWithinMs: END_WITHIN_MS,
      observer: { optionFailed: (option: string) => void failed.push(option) },
    } as const;
    transaction = new OperationTransaction(unitOfWork, options, () => (lost += 1), clock);
  });

  it('ends at once if it was never opened', async () => {
    expect(await transaction.rollBack()).toBe(true);
    expect(await transaction.commit(nothing)).toBeUndefined();
    expect(unitOfWork.options).toEqual([]);
  });

  it("is opened with the database's isolation, and again with another handle", async () => {
    await open();
    expect(unitOfWork.options).toEqual([{ isolation: undefined, timeoutMs: 60_000 }]);
    expect(transaction.handle).toBe('handle 1');
    expect(await transaction.rollBack()).toBe(true);
    await open();
    expect(transaction.handle).toBe('handle 2');
    expect(await transaction.commit(nothing)).toEqual({ kind: 'committed' });
    expect(unitOfWork.notes).toEqual(['rolled back', 'committed']);
  });

  it('is not open if its preparation takes too long', async () => {
    const opening = transaction.open(60_000, () => new Promise(() => undefined));
    const failure = expect(opening).rejects.toThrow('It was not open in time');
    await clock.advance(OPEN_WITHIN_MS);
    await failure;
    expect(transaction.handle).toBeUndefined();
    expect(unitOfWork.notes).toEqual(['cut']);
  });

  it('gives its last work the time that it may take, besides that of the end, and no more', async () => {
    const last = () => clock.sleep(5_000);
    unitOfWork.end.open();
    await open();
    const commits = transaction.commit(last, 5_000);
    await clock.advance(5_000);
    expect(await commits).toEqual({ kind: 'committed' });
    expect(unitOfWork.notes).toEqual(['committed']);
    await open();
    const late = transaction.commit(last, 4_000);
    await clock.advance(4_000 + END_WITHIN_MS);
    expect(await late).toBeUndefined();
    expect(unitOfWork.notes).toEqual(['committed', 'cut']);
    await clock.advance(5_000);
  });

  describe('that does not end in time', () => {
    beforeEach(async () => {
      await open();
      unitOfWork.end.close();
    });

    it.each([
      ['a commit', () => transaction.commit(nothing), undefined],
      ['a rollback', () => transaction.rollBack(), false],
    ] as const)('is cut, and its end is not known: %s', async (_, end, result) => {
      const ended = end();
      await clock.advance(END_WITHIN_MS - 1);
      expect(unitOfWork.notes).toEqual([]);
      await clock.advance(1);
      expect(await ended).toBe(result);
      expect(unitOfWork.notes).toEqual(['cut']);
    });
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('a bug');
      },
    ],
    ['returns a promise', () => Promise.resolve(true)],
    ['returns nothing', () => undefined],
  ])(
    'reports a function of a custom unit of work that %s, and takes it for false',
    async (_, bug) => {
      await open();
      for (const name of ['isConflict', 'isInterruption', 'isReplyMismatch'] as const) {
        Object.assign(unitOfWork, { [name]: bug });
        expect(transaction[name](new Error('a failure'))).toBe(false);
      }
      expect(failed).toEqual([
        'unitOfWork.isConflict',
        'unitOfWork.isInterruption',
        'unitOfWork.isReplyMismatch',
      ]);
    },
  );

  describe('whose connection is lost', () => {
    it('reports it, and treats each error as an interruption', async () => {
      await open();
      expect(transaction.isInterruption('another')).toBe(false);
      unitOfWork.connection.abort();
      expect(lost).toBe(1);
      expect(transaction.isInterruption('another')).toBe(true);
    });

    it('reports nothing after its end', async () => {
      await open();
      await transaction.rollBack();
      unitOfWork.connection.abort();
      expect(lost).toBe(0);
    });
  });

  it('treats a classification that fails or is a promise as false', () => {
    expect(transaction.isConflict(new Error('40001'))).toBe(false);
    expect(transaction.isReplyMismatch(new Error('other'))).toBe(false);
    expect(transaction.isInterruption('interruption')).toBe(true);
  });

  describe('its hooks', () => {
    const ran: string[] = [];
    const failed: unknown[] = [];
    const hook = (name: string) => () => ran.push(name);
    beforeEach(() => {
      ran.length = 0;
      failed.length = 0;
    });

    it('run, even if one of them fails', async () => {
      await open();
      transaction.onCommitted(() => {
        throw new Error('planned');
      });
      transaction.onCommitted(() => Promise.reject(new Error('planned, too')));
      transaction.onCommitted(hook('last'));
      await transaction.commit(nothing);
      await transaction.runHooks((error) => failed.push(error));
      expect(ran).toEqual(['last']);
      expect(failed).toEqual([new Error('planned'), new Error('planned, too')]);
    });

    it('are forgotten when it is opened again', async () => {
      await open();
      transaction.onCommitted(hook('of the first'));
      await transaction.rollBack();
      await open();
      transaction.onCommitted(hook('of the second'));
      await transaction.runHooks((error) => failed.push(error));
      expect(ran).toEqual(['of the second']);
    });

    it('are rejected once its end is decided', async () => {
      await open();
      void transaction.rollBack();
      expect(() => {
        transaction.onCommitted(hook('late'));
      }).toThrow('onCommitted() was called in Payments.create after its transaction had ended.');
    });
  });
});

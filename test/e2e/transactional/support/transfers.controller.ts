import {
  Controller,
  HttpException,
  Injectable,
  InternalServerErrorException,
  Post,
  Res,
  UseInterceptors,
  type CallHandler,
  type NestInterceptor,
} from '@nestjs/common';
import { catchError, of, retry, tap } from 'rxjs';
import type { Pool } from 'pg';
import {
  IdempotencyContext,
  IdempotencyTransaction,
  Idempotent,
  requireIdempotencyTransaction,
  type Recover,
} from 'nestjs-idempotency';
import type { PgTransaction } from 'nestjs-idempotency/pg';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../../../support/http/scenario.js';

export type Transaction = PgTransaction<Pool>;

/** The business data: one row for each committed execution. */
export const CREATE_TRANSFERS =
  'CREATE TABLE transfers (key text NOT NULL, execution integer NOT NULL)';

/** Raises the error that PostgreSQL reports for a conflict with a concurrent transaction. */
export const RAISE_CONFLICT =
  "DO $$ BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = 'serialization_failure'; END $$";

/** Gets the transaction from its context, not from an argument, as services deep in an application do. */
@Injectable()
export class Transfers {
  async add({ key }: Scenario, execution: number): Promise<void> {
    const transaction = requireIdempotencyTransaction<Transaction>();
    await transaction.query('INSERT INTO transfers VALUES ($1, $2)', [key, execution]);
  }
}

/** Fails after the handler has succeeded, with the status that the request names. */
class FailsAfterwards implements NestInterceptor {
  intercept(context: { switchToHttp(): any }, next: CallHandler) {
    const status = Number(context.switchToHttp().getRequest().headers['x-fails-with']);
    return next.handle().pipe(
      tap(() => {
        throw new HttpException({ failed: status }, status);
      }),
    );
  }
}

class Repeats implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle().pipe(retry(1));
  }
}

class FallsBack implements NestInterceptor {
  intercept(_: unknown, next: CallHandler) {
    return next.handle().pipe(catchError(() => of({ fallback: true })));
  }
}

/** Looks a transfer up within the transaction of the attempt. */
const findTransfer: Recover = async ({ key }) => {
  const { rows } = await requireIdempotencyTransaction<Transaction>().query(
    'SELECT execution FROM transfers WHERE key = $1',
    [key],
  );
  return rows.length === 0 ? 'run' : { value: rows[0] };
};

@Controller()
@Idempotent({ transaction: true })
export class TransfersController {
  constructor(private readonly transfers: Transfers) {}

  @Post('transfers')
  async create(
    @InScenario() scenario: Scenario,
    @IdempotencyTransaction() transaction: Transaction,
    @IdempotencyContext() context: IdempotencyContext,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    const { attempt, isTakeover, signal } = context;
    signal.addEventListener('abort', () => scenario.notes.push({ aborted: signal.reason }));
    context.onCommitted(async () => {
      if (scenario.plan.includes('hook waits')) {
        scenario.notes.push('hook waits');
        await scenario.timeout.pass();
      }
      scenario.notes.push('committed');
      if (scenario.plan.includes('hook fails')) throw new Error('the hook failed');
    });
    const execution = await this.#execute(scenario);
    const planned = scenario.planned(execution);
    if (planned === 'decline') throw new HttpException({ execution }, 402);
    if (planned === 'fail') throw new InternalServerErrorException();
    if (planned === 'swallow') await transaction.query('SELECT 1 / 0').catch(() => undefined);
    // The guard does not see what follows another statement.
    if (planned === 'commit') {
      await transaction.query('SELECT 1; COMMIT');
      await this.transfers.add(scenario, -execution);
    }
    if (planned === 'roll back') await transaction.query('SELECT 1; ROLLBACK');
    if (/^\d+$/.test(planned)) reply.status(Number(planned));
    return { execution, attempt, isTakeover };
  }

  @Post('fails-afterwards')
  @UseInterceptors(FailsAfterwards)
  @Idempotent({ transaction: true })
  async failsAfterwards(@InScenario() scenario: Scenario) {
    return this.#added(scenario);
  }

  /** An outer interceptor retries the handler. */
  @Post('repeated-outside')
  @Idempotent({ transaction: true })
  @UseInterceptors(Repeats)
  async repeatedOutside(@InScenario() scenario: Scenario) {
    return this.#failing(scenario);
  }

  /** An inner interceptor retries the handler. */
  @Post('repeated-inside')
  @UseInterceptors(Repeats)
  @Idempotent({ transaction: true })
  async repeatedInside(@InScenario() scenario: Scenario) {
    return this.#failing(scenario);
  }

  @Post('falls-back')
  @UseInterceptors(FallsBack)
  @Idempotent({ transaction: true })
  async fallsBack(@InScenario() scenario: Scenario) {
    return this.#failing(scenario);
  }

  @Post('unkept')
  @Idempotent({ transaction: true, outcome: () => false })
  async unkept(
    @InScenario() scenario: Scenario,
    @IdempotencyContext() context: IdempotencyContext,
  ) {
    context.onCommitted(() => scenario.notes.push('committed'));
    return this.#added(scenario);
  }

  @Post('not-serializable')
  async notSerializable(@InScenario() scenario: Scenario) {
    await this.#added(scenario);
    return { big: 1n };
  }

  @Post('persistent')
  @Idempotent({ transaction: { conflictRetries: 2 } })
  async persistent(
    @InScenario() scenario: Scenario,
    @IdempotencyTransaction() transaction: Transaction,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    const execution = await this.#execute(scenario);
    reply.header(`x-run-${execution}`, 'yes');
    const planned = scenario.planned(execution);
    if (planned === 'conflict') await transaction.query(RAISE_CONFLICT);
    if (planned === 'terminated') {
      await transaction.query('SELECT pg_terminate_backend(pg_backend_pid())');
    }
    return { execution };
  }

  @Post('waiting')
  @Idempotent({ transaction: true, duplicates: 'wait' })
  async waiting(@InScenario() scenario: Scenario) {
    return this.#added(scenario);
  }

  @Post('careful')
  @Idempotent({ transaction: true, lease: { onTakeover: 'reject' } })
  async careful(@InScenario() scenario: Scenario) {
    return this.#added(scenario);
  }

  @Post('imported')
  @Idempotent({ lease: { onTakeover: findTransfer, recoverOn: 'always' } })
  async imported(@InScenario() scenario: Scenario) {
    return this.#added(scenario);
  }

  @Post('short')
  @Idempotent({ transaction: true, lease: { duration: 1_000, maxExecution: 3_000 } })
  async short(@InScenario() scenario: Scenario, @IdempotencyContext() context: IdempotencyContext) {
    const { signal } = context;
    const note = () => scenario.notes.push({ aborted: signal.reason });
    // On a busy machine the deadline may have passed before the handler is called.
    if (signal.aborted) note();
    else signal.addEventListener('abort', note);
    return this.#added(scenario);
  }

  /** Adds a row and reads the count: of two concurrent transactions, one must fail. */
  @Post('skewed')
  @Idempotent({ transaction: { isolation: 'serializable' } })
  async skewed(
    @InScenario() scenario: Scenario,
    @IdempotencyTransaction() transaction: Transaction,
  ) {
    const { rows } = await transaction.query('SELECT count(*)::integer AS count FROM transfers');
    return { ...(await this.#added(scenario)), before: rows[0].count };
  }

  @Post('settings')
  @Idempotent({ transaction: { isolation: 'repeatable read' }, lease: { maxExecution: 123_000 } })
  async settings(@IdempotencyTransaction() transaction: Transaction) {
    const shown = async (name: string) =>
      (await transaction.query(`SELECT current_setting('${name}', true) AS value`)).rows[0].value;
    return {
      isolation: await shown('transaction_isolation'),
      transaction: await shown('transaction_timeout'),
      statement: await shown('statement_timeout'),
      idle: await shown('idle_in_transaction_session_timeout'),
    };
  }

  async #failing(scenario: Scenario) {
    const execution = await this.#execute(scenario);
    if (scenario.planned(execution) === 'fail') throw new InternalServerErrorException();
    return { execution };
  }

  async #added(scenario: Scenario) {
    return { execution: await this.#execute(scenario) };
  }

  /** `started` counts an execution once it has written. */
  async #execute(scenario: Scenario): Promise<number> {
    const execution = scenario.executions + 1;
    await this.transfers.add(scenario, execution);
    scenario.started.add();
    await scenario.gate.pass();
    return execution;
  }
}

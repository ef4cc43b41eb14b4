import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { isTestAll } from '../../support/jest/test-all.js';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { typescriptNodeOptions } from '../../support/typescript/node-options.js';
import { usePostgres } from '../../support/postgres/use-postgres.js';

const SCRIPT = fileURLToPath(new URL('process.ts', import.meta.url));

const TYPEORM = 'typeorm-transactional’s @Transactional()';
const SPAN = 'nestjs-otel’s @Span()';
const CLS = 'nestjs-cls’ @UseCls()';
const CLS_TRANSACTION = '@nestjs-cls/transactional’s @Transactional()';
const MIKRO_ORM = 'MikroORM’s @CreateRequestContext()';

const BELOW = ['below @Idempotent()', 'below @Post(), with @Idempotent() on the class'];
const ABOVE = [
  'between @Post() and @Idempotent()',
  'above @Post()',
  'above and below @Idempotent()',
  'above @Post(), with @Idempotent() on the class',
];

/** The results of one decorator in one place. */
interface Reported {
  readonly name: string;
  readonly where: string;
  readonly isTransaction: boolean;
  readonly [story: string]: any;
}

const server = usePostgres();
let reported: Reported[];

beforeAll(async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...typescriptNodeOptions, SCRIPT, await server.newDatabase(), String(Number(isTestAll))],
    { env: outsideEnvironment(), maxBuffer: 10_000_000 },
  );
  const lines = stdout.trim().split('\n');
  reported = lines.map((line) => JSON.parse(line) as Reported);
}, 120_000);

const rowsOf = (names: readonly string[], places: readonly string[]) =>
  names.flatMap((name) => places.map((where) => ({ name, where })));

const of = (row: Pick<Reported, 'name' | 'where'>) =>
  reported.find((one) => Object.entries(row).every(([member, value]) => one[member] === value))!;

const created = (execution: number, replayed = false) => ({
  status: 201,
  replayed,
  json: { execution },
});
const declined = (replayed = false) => ({ status: 402, replayed, json: { execution: 1 } });

describe.each([
  ...rowsOf([TYPEORM, SPAN, CLS, CLS_TRANSACTION], [...ABOVE, ...BELOW]),
  ...rowsOf([MIKRO_ORM], BELOW),
])('$name $where', (row) => {
  it('has one effect for two requests', () => {
    expect(of(row).kept).toEqual({
      responses: [created(1), created(1, true)],
      executions: 1,
      committed: [1],
    });
  });

  it('C74 a 4xx is kept with a decorator of another package', () => {
    const { isTransaction } = of(row);
    expect(of(row).declined).toEqual({
      responses: [declined(), declined(true)],
      executions: 1,
      committed: isTransaction ? [] : [1],
    });
  });

  it('C88 a request that a pipe rejects keeps nothing', () => {
    const { responses, executions } = of(row).piped;
    expect(responses).toEqual([
      expect.objectContaining({ status: 400, replayed: false }),
      created(1),
    ]);
    expect(executions).toBe(1);
  });

  it('C60c an inner timeout causes no second effect', () => {
    expect(of(row).timedOut).toEqual({
      first: 503,
      meanwhile: 'idempotency_in_progress',
      later: 'idempotency_response_not_kept',
      executions: 1,
      committed: [1],
    });
  });

  it('C60c a failure after an inner timeout frees the key once the handler ends', () => {
    const { isTransaction } = of(row);
    expect(of(row).timedOutAndFailed).toEqual({
      first: 503,
      meanwhile: 'idempotency_in_progress',
      later: 201,
      executions: 2,
      committed: isTransaction ? [2] : [1, 2],
    });
  });

  it('calls onTakeover on a takeover', () => {
    expect(of(row).takenOver).toEqual({
      response: { status: 201, replayed: false, json: { execution: 'found' } },
      executions: 0,
    });
  });

  it('commits a transactional operation with its outcome, and rolls it back with its failure', () => {
    expect(of(row).transaction).toEqual({
      kept: { responses: [created(1), created(1, true)], executions: 1, committed: [1] },
      declined: { responses: [declined(), declined(true)], executions: 1, committed: [] },
      failed: {
        responses: [expect.objectContaining({ status: 500 }), created(2)],
        executions: 2,
        committed: [2],
      },
    });
  });
});

it.each(rowsOf([MIKRO_ORM], ABOVE))(
  '$name $where stops the start because it copies no metadata',
  (row) => {
    const { code, message } = of(row).rejected;
    expect(code).toBe('idempotency_options_invalid');
    expect(message).toMatch(/^@Idempotent\(\) on ChargesController[\d-]+\.\w+ has no effect: /);
    expect(message).toContain('Put @Idempotent() above that decorator');
  },
);

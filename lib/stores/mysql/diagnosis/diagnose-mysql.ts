import { checkSteps } from '../../../core/store/diagnosis/check-steps.js';
import {
  error,
  findingsOf,
  messageOf,
  ok,
  orOk,
  type Finding,
  type Place,
} from '../../../core/store/diagnosis/finding.js';
import { checkClock } from '../../../core/store/diagnosis/measure.js';
import type { Steps } from '../../../core/store/diagnosis/trial.js';
import { MysqlDeadline } from '../connection/deadline.js';
import { NOW_US } from '../sql/sql-statements.js';
import type { MysqlTable } from '../sql/table-name.js';
import type { MysqlRunner } from '../statements/statement-runner.js';
import { checkMysqlServer } from './start-checks.js';

/** The store that is checked. */
export interface MysqlSubject {
  readonly store: Steps;
  readonly runner: MysqlRunner;
  readonly table: MysqlTable;
  /** Whether the store deletes expired records. */
  readonly deletes: boolean;
}

const TIMEOUT_MS = 2_000;
const PUSH_REMEDY = 'MySQL has no notifications: nothing is to be done.';

const PLACES: Readonly<Record<string, Place>> = {
  mysql_unreachable: ['connection', 'error'],
  mysql_is_read_only: ['role', 'error'],
  mysql_commits_late: ['durability', 'warning'],
};

/** What stops the start, and the check that it belongs to. */
const CHECKS = [
  [/^Migrations/, 'migrations'],
  [/requires SELECT/, 'rights'],
] as const;

/** Checks a server and the table of the store, through its pool. */
export async function* diagnoseMysql(subject: MysqlSubject): AsyncGenerator<Finding> {
  const { store, runner, table } = subject;
  const started = await start(subject);
  yield* orOk(started, 'connection', 'Connected.');
  yield* orOk(started, 'role', 'The server accepts writes.');
  yield* orOk(started, 'durability', 'The server flushes each commit to its disk.');
  yield* started.filter(({ check }) => !['connection', 'role', 'durability'].includes(check));
  if (started.some(({ verdict }) => verdict === 'error')) return;
  yield ok('migrations', `All migrations of ${table.quoted} were run.`);
  const failed = yield* checkSteps(store, PUSH_REMEDY);
  if (failed?.check === 'connection') return;
  yield await checkClock(async () => {
    const clock = `SELECT ? AS nonce, ${NOW_US} AS now_us`;
    const [row] = await runner.read(new MysqlDeadline(TIMEOUT_MS), clock, []);
    return Number(row?.now_us) / 1000;
  });
}

async function start({ runner, table, deletes }: MysqlSubject): Promise<Finding[]> {
  try {
    return findingsOf(await checkMysqlServer(runner, table, deletes), PLACES);
  } catch (failure) {
    const text = messageOf(failure);
    return [error(CHECKS.find(([begin]) => begin.test(text))?.[1] ?? 'start', text)];
  }
}

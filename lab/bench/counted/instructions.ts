import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { redisStore } from 'nestjs-idempotency/redis';
import { startRedis, type RedisServer } from '../../../test/support/redis/redis-server.js';
import { scriptTasks, tasksOf, type Tasks } from '../store/tasks.js';

const run = promisify(execFile);

const WARM_UP = 20;
const COUNTED = 50;
/** The least of them counts: what the server does once in a while stands in the others. */
const ROUNDS = 5;
const BODY = Buffer.alloc(200, '{"id":"0123456789","amount":1990},');
const KEY_LENGTH = 43;

/** In user instructions of the server, with what it takes to read a command and to write its reply. */
export interface Instructions {
  /** begin and complete of one record. */
  readonly pair: number;
  readonly replay: number;
  /** The same as a pair by two scripts of one line. */
  readonly pairOfOneLine: number;
}

/** What the store's scripts take of a server, counted by callgrind: the same beside whatever else the machine does. */
export async function countInstructions(): Promise<Instructions> {
  const server = await startRedis({
    under: ['valgrind', '--tool=callgrind', '--callgrind-out-file=counted'],
    // Its timers would count for some commands and not for others.
    args: ['--hz', '1', '--dynamic-hz', 'no', '--activerehashing', 'no', '--io-threads', '1'],
  });
  const via = { url: server.url, pipelining: true };
  const store = redisStore({ url: server.url });
  await store.open();
  const tasks = {
    store: tasksOf(store, () => undefined),
    oneLine: await scriptTasks(via),
  };
  try {
    const counter = new Counter(server);
    const pairOf = ({ pair }: Tasks, prefix: string) =>
      counter.count((index) => pair(keyOf(prefix, index), BODY));
    const pair = await pairOf(tasks.store, 's');
    const replay = await counter.count((index) => tasks.store.replay(keyOf('s', index), BODY));
    const pairOfOneLine = await pairOf(tasks.oneLine, 'o');
    return { pair, replay, pairOfOneLine };
  } finally {
    await tasks.store.close();
    await tasks.oneLine.close();
    await server.stop();
  }
}

function keyOf(prefix: string, index: number): string {
  return prefix + String(index).padStart(KEY_LENGTH - prefix.length, '0');
}

class Counter {
  private dumps = 0;

  constructor(private readonly server: RedisServer) {}

  /** Instructions of one call of `task`, called one after the other. */
  async count(task: (index: number) => Promise<void>): Promise<number> {
    let index = 0;
    const repeat = async (times: number) => {
      for (const end = index + times; index < end; index += 1) await task(index);
    };
    await repeat(WARM_UP);
    const totals: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await this.control('--zero');
      await repeat(COUNTED);
      await this.control('--dump');
      totals.push(this.total());
    }
    return Math.min(...totals) / COUNTED;
  }

  /** Of the latest dump. */
  private total(): number {
    this.dumps += 1;
    const { dir } = this.server;
    const text = readFileSync(join(dir, `counted.${String(this.dumps)}`), 'utf8');
    const total = Number(/^(?:summary|totals): (\d+)/m.exec(text)?.[1]);
    if (!(total > 0)) throw new Error(`callgrind has written no total into ${dir}`);
    return total;
  }

  private async control(command: string): Promise<void> {
    await run('callgrind_control', [command, String(this.server.pid)]);
  }
}

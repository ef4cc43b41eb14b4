import { error, ok, warning, type Finding } from '../../../core/store/diagnosis/finding.js';
import { nodeClock } from '../../../core/util/clock.js';
import { within } from '../../../core/util/time.js';
import type { RedisServer } from '../link/redis-link.js';
import type { Question } from '../scripts/question.js';
import type { ScriptSender } from '../scripts/script-sender.js';

const TIMEOUT_MS = 2_000;
const KEPT_MS = '10000';

/**
 * Runs the commands that the steps of the store may not have needed: a server that knows the scripts executes no EVAL, and
 * without the commands for large outcomes the store does without them.
 * @param servers - all primaries: on a cluster each has a user list of its own.
 * @param key - that a request cannot have.
 * @param describe - the text of an error.
 */
export async function checkServerRights(
  sender: ScriptSender,
  servers: readonly RedisServer[],
  key: string,
  describe: (error: unknown) => string,
): Promise<Finding[]> {
  const found: Finding[] = [];
  /** @param use - what the user has to be granted, and what for. */
  const attempt = async (complain: typeof error, use: string, running: Promise<unknown>) => {
    try {
      await running;
    } catch (failure) {
      found.push(complain('rights', `${use} ${describe(failure)}`));
    }
  };
  await attempt(
    error,
    'The user requires EVAL: it loads the scripts on a server that does not know them, for example after a restart.',
    sender.ask(evaluating(sender, key), nodeClock.now() + TIMEOUT_MS),
  );
  const { isCluster } = sender.link;
  for (const server of servers) {
    await attempt(
      warning,
      `${isCluster ? `${server.address}: ` : ''}Without SCAN, the reconciler finds nothing to recover, and an operator can neither list, export nor erase records; to find the record of a key does not need it. Grant it: ACL SETUSER … +scan.`,
      run(server, ['SCAN', '0', 'COUNT', '1']),
    );
  }
  const [server] = servers;
  // Of a cluster, each server has some of the keys.
  if (server !== undefined && !isCluster) {
    const other = `${key}-2`;
    await attempt(
      warning,
      'Without SETRANGE, RENAME and UNLINK, large outcomes are stored by a script, which costs more.',
      run(
        server,
        ['SET', key, 'doctor', 'PX', KEPT_MS],
        ['SETRANGE', key, '0', 'D'],
        ['RENAME', key, other],
        ['UNLINK', other],
      ),
    );
  }
  return found.length > 0 ? found : [ok('rights', 'The user may run every command of the store.')];
}

function evaluating({ link }: ScriptSender, key: string): Question {
  return {
    send: (asked) => {
      link.eval("return ARGV[1] .. ' doctor'", [key], [asked.newNonce()], asked);
    },
  };
}

async function run(
  server: RedisServer,
  ...commands: readonly (readonly [command: string, ...args: string[]])[]
): Promise<void> {
  for (const words of commands) await within(TIMEOUT_MS, server.call(...words), nodeClock);
}

import { nodeClock } from '../../core/util/clock.js';
import { within } from '../../core/util/time.js';
import { error, ok, warning, type Finding } from '../../core/store/diagnosis/finding.js';
import type { AskedRedis } from './redis-subject.js';

const TIMEOUT_MS = 2_000;
const KEPT_MS = '10000';

interface Right {
  readonly commands: readonly (readonly string[])[];
  readonly verdict: 'warning' | 'error';
  /** What the user has to be granted, and what for. */
  readonly use: string;
}

/**
 * Runs the commands that the steps of the store may not have needed: a server that knows the scripts executes no EVAL, and
 * without the commands for large outcomes the store does without them.
 * @param key - of the doctor, which a request cannot have.
 * @param describe - the text of an error.
 */
export async function checkRights(
  client: AskedRedis,
  key: string,
  isCluster: boolean,
  describe: (error: unknown) => string,
): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const right of rightsOn(key, isCluster)) {
    const failure = await failureOf(client, right);
    if (failure === undefined) continue;
    const finding = right.verdict === 'error' ? error : warning;
    found.push(finding('rights', `${right.use} ${describe(failure)}`));
  }
  return found.length > 0 ? found : [ok('rights', 'The user may run every command of the store.')];
}

function rightsOn(key: string, isCluster: boolean): Right[] {
  const other = `${key}-2`;
  const evaluated: Right = {
    commands: [['EVAL', 'return ARGV[1]', '1', key, 'doctor']],
    verdict: 'error',
    use: 'The user requires EVAL: it loads the scripts on a server that does not know them, for example after a restart.',
  };
  if (isCluster) return [evaluated];
  return [
    evaluated,
    {
      commands: [['SCAN', '0', 'COUNT', '1']],
      verdict: 'warning',
      use: 'Only the reconciler requires SCAN.',
    },
    {
      commands: [
        ['SET', key, 'doctor', 'PX', KEPT_MS],
        ['SETRANGE', key, '0', 'D'],
        ['RENAME', key, other],
        ['UNLINK', other],
      ],
      verdict: 'warning',
      use: 'Without SETRANGE, RENAME and UNLINK, large outcomes are stored by a script, which costs more.',
    },
  ];
}

async function failureOf(client: AskedRedis, { commands }: Right): Promise<unknown> {
  for (const [command = '', ...args] of commands) {
    try {
      await within(TIMEOUT_MS, client.call(command, ...args), nodeClock);
    } catch (failure) {
      return failure;
    }
  }
  return undefined;
}

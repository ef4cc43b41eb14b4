import type { MessageEvidence } from '../../faults/messages/message-evidence.js';
import { MessageLab } from '../../faults/messages/message-lab.js';
import { judgeMessages, type MessageAction } from '../../faults/messages/message-oracle.js';
import { MessageServers } from '../../faults/messages/message-servers.js';
import type { Mutant } from '../../faults/messages/mutant.js';
import { ConsumerPool } from './consumer-pool.js';
import type { MessagePlan } from './message-plan.js';
import { MessageRun } from './message-run.js';
import type { Watch } from './progress.js';

export interface MessageRunResult extends MessageAction {
  readonly evidence: MessageEvidence;
  /** What the faults did. */
  readonly trouble: Readonly<Record<string, number>>;
  /** How long the load lasted. */
  readonly seconds: number;
  readonly deliveriesPerSecond: number;
  /** Versions of the servers' software, by its name. */
  readonly servers: Readonly<Record<string, string>>;
}

export interface RunOptions {
  readonly watch?: Watch;
  /** A mistake that the consumers' library is to have. */
  readonly mutant?: Mutant;
}

/** Plays a plan from the start of its servers to the verdict. */
export async function runMessages(
  plan: MessagePlan,
  options: RunOptions = {},
): Promise<MessageRunResult> {
  const servers = await MessageServers.start();
  try {
    return await runMessagesOn(servers, plan, options);
  } finally {
    await servers.stop();
  }
}

/** Plays a plan on servers that may serve other plans at the same time. */
export async function runMessagesOn(
  servers: MessageServers,
  plan: MessagePlan,
  { watch = () => () => undefined, mutant }: RunOptions = {},
): Promise<MessageRunResult> {
  const { queue, consumers, prefetch, leaseMs, whenInProgress, effectMs: effectDelayMs } = plan;
  const lab = await MessageLab.open(servers, {
    queue,
    consumers,
    prefetch,
    options: { lease: { duration: leaseMs }, duplicates: whenInProgress },
    effectDelayMs,
    program: await servers.programOf(mutant),
  });
  try {
    const pool = await ConsumerPool.start(lab, consumers);
    const run = new MessageRun(plan, lab, pool);
    const unwatch = watch(run, lab, pool);
    try {
      const startedAt = performance.now();
      await run.load();
      await run.settle();
      const seconds = (performance.now() - startedAt) / 1_000;
      await pool.terminate();
      const evidence = await lab.evidence();
      const verdict = judgeMessages(evidence);
      const collapses = pool.collapses.map((log) => `a consumer ended by itself: ${log}`);
      return {
        ...verdict,
        objections: [...verdict.objections, ...collapses],
        evidence,
        trouble: troubleOf(evidence, pool, run, lab),
        seconds,
        deliveriesPerSecond: Math.round(evidence.wire.deliveries.length / seconds),
        servers: await servers.versions(),
      };
    } finally {
      unwatch();
    }
  } finally {
    await lab.clear();
  }
}

function troubleOf(
  { events, wire }: MessageEvidence,
  pool: ConsumerPool,
  run: MessageRun,
  lab: MessageLab,
): Record<string, number> {
  const closedBy = (by: 'consumer' | 'broker') =>
    wire.closes.filter((close) => close.by === by && close.at < lab.endedAt).length;
  return {
    'kill -9': pool.deaths,
    'of these at a named point': events.filter(({ type }) => type === 'lab:crash').length,
    'channels closed by their consumer': closedBy('consumer'),
    'channels closed by the broker': closedBy('broker'),
    'connections cut': lab.cuts,
    ...(run.pauses > 0 && { SIGSTOP: run.pauses }),
  };
}

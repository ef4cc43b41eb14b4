import type { Cluster } from 'ioredis';

type Result = [error: Error | null, reply: unknown];

/** A pipeline of bytes, which ioredis does not declare. */
interface ScriptPipeline {
  evalshaBuffer(...args: unknown[]): unknown;
  evalBuffer(...args: unknown[]): unknown;
  wait(replicas: number, timeoutMs: number): unknown;
  exec(): Promise<Result[]>;
}

/**
 * The planted mistake: script and WAIT go out by a pipeline of the Cluster, one for each call, and whatever comes in
 * the place of a script's reply is taken for it. The store does not see a cluster there, but one connection.
 */
export function pipelinedThroughCluster(
  cluster: Cluster,
  { count, timeoutMs }: { readonly count: number; readonly timeoutMs: number },
): Cluster {
  const send = async (method: 'evalshaBuffer' | 'evalBuffer', args: readonly unknown[]) => {
    const pipeline = cluster.pipeline() as unknown as ScriptPipeline;
    pipeline[method](...args);
    pipeline.wait(count, timeoutMs);
    const [script, waited] = await pipeline.exec();
    const error = script?.[0] ?? waited?.[0];
    if (error) throw error;
    const reply = script?.[1];
    return Array.isArray(reply) ? [Buffer.from(String(args.at(-1))), ...reply.slice(1)] : reply;
  };
  const overrides: Record<string | symbol, unknown> = {
    isCluster: false,
    evalshaBuffer: (...args: unknown[]) => send('evalshaBuffer', args),
    evalBuffer: (...args: unknown[]) => send('evalBuffer', args),
  };
  return new Proxy(cluster, {
    get(target, name) {
      if (name in overrides) return overrides[name];
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value;
    },
  });
}

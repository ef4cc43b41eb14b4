import { setTimeout } from 'node:timers/promises';
import type { IdempotencyStore } from 'nestjs-idempotency';
import { beginCommand, completeCommand, leaseOf, watch } from '../../support/stores/commands.js';

/** How a test says what a process opens and closes. */
export interface Closing {
  /** The entry of the package, and its factory. */
  readonly entry: string;
  readonly factory: string;
  /** Of one store after the other. */
  readonly options: readonly object[];
  /** The client of GLIDE, which only an application opens. */
  readonly glidePort?: number;
  readonly livesOnForMs: number;
}

const settings = JSON.parse(process.env.TEST_SETTINGS ?? '') as Closing;
const { [settings.factory]: open } = (await import(
  `nestjs-idempotency/${settings.entry}`
)) as Record<string, (options: object) => IdempotencyStore>;
const client = settings.glidePort === undefined ? undefined : await glideClient(settings.glidePort);

const said: string[] = [];
for (const options of settings.options) {
  const store = open!({ ...options, ...(client && { client }) });
  try {
    await (store as { migrate?: () => Promise<unknown> }).migrate?.();
    await store.open();
    const begin = beginCommand({ timeoutMs: 300 });
    const reply = await store.begin(begin);
    const watcher = await watch(store, begin, 300);
    const lease = leaseOf(begin, reply.kind === 'acquired' ? reply.fence : -1);
    const { kind } = await store.complete(lease, completeCommand({ notify: true }));
    watcher.stop?.();
    said.push(kind);
  } catch (error) {
    said.push((error as { code?: string }).code ?? String(error));
  }
  await store.close();
}
client?.close();
await setTimeout(settings.livesOnForMs);
console.log(JSON.stringify(said));

async function glideClient(port: number) {
  const { GlideClient, Logger } = await import('@valkey/valkey-glide');
  // It logs to the standard output, which is what the process says.
  Logger.init('off');
  const addresses = [{ host: '127.0.0.1', port }];
  return GlideClient.createClient({ addresses, requestTimeout: 5_000 });
}

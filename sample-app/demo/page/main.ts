/**
 * `npm start`: two processes of the API on an embedded PostgreSQL, with the page's faults. With STORE or REDIS_URL, or
 * where that PostgreSQL does not run, one process of the API as it is.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { validateEnvironment } from '../../src/config/environment.js';
import {
  type EmbeddedServer,
  startEmbeddedPostgres,
} from '../../src/persistence/embedded-postgres.js';
import { welcome } from '../../src/welcome.js';
import { PageDemo } from './page-demo.js';

/** Short enough to wait for the takeover of a killed process. */
const LEASE = '3s';
/** Long enough to send some requests. */
const STORE_AWAY_MS = Number(process.env.STORE_AWAY_MS ?? 20_000);

const isStoreChosen = process.env.STORE !== undefined || process.env.REDIS_URL !== undefined;
const postgres = isStoreChosen ? undefined : await startPostgres();
if (postgres === undefined) await startAlone();
else await startDemo(postgres);

async function startPostgres(): Promise<EmbeddedServer | undefined> {
  console.error('Starting an embedded PostgreSQL, and two processes of the API …');
  try {
    return await startEmbeddedPostgres();
  } catch (error) {
    console.error(
      `${String(error)}\nThe API starts with STORE=memory, and its page without faults.`,
    );
    process.env.STORE = 'memory';
    return undefined;
  }
}

async function startAlone(): Promise<void> {
  await import('../../src/instrumentation.js');
  await import('../../src/main.js');
}

async function startDemo(server: EmbeddedServer): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'nestjs-idempotency-sample-'));
  // The provider is another company: its ledger is not in the API's database.
  const LEDGER_FILE = join(folder, 'ledger.jsonl');
  const BLOBS_DIRECTORY = join(folder, 'blobs');
  const settings = { LEASE, LEDGER_FILE, BLOBS_DIRECTORY, ...process.env, STORE: 'postgres' };
  const environment = validateEnvironment(settings);
  const demo = new PageDemo(environment, server.url, settings.LEDGER_FILE, STORE_AWAY_MS);
  const end = async () => {
    await demo.close();
    await server.stop();
    rmSync(folder, { recursive: true });
    process.exit();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => void end());
  }
  try {
    await demo.start();
    console.log(welcome(demo.url, environment));
  } catch (error) {
    console.error(String(error));
    process.exitCode = 1;
    await end();
  }
}

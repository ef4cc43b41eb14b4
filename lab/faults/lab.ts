import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LabClient } from './client.js';
import { ClientLog } from './client-log.js';
import { compileWorker } from './compile-worker.js';
import { readLines, type Evidence } from './evidence.js';
import type { Expectations } from './expectations.js';
import { recordKeyOf } from './extra-executions.js';
import { LabWorker } from './lab-worker.js';
import { judge, type Verdict } from './oracle.js';
import type { Effect, EventLine } from './worker/lines.js';
import type { StoreSettings, WorkerOptions, WorkerSettings } from './worker/settings.js';

export interface StartOptions extends Pick<
  WorkerSettings,
  'secrets' | 'blobs' | 'transactional' | 'mutant' | 'metrics' | 'onTakeover'
> {
  readonly options?: WorkerOptions;
  readonly effectDelayMs?: number;
}

/** How often the files of the workers are read. */
const POLL_PAUSE_MS = 10;

/** A machine that is busy with other tests is not to be mistaken for a store that is down. */
const TIMEOUT = { commandTimeout: 5_000, saveTimeout: 10_000 };

/** Worker processes with one ledger, their clients, and the oracle over it all. */
export class Lab {
  readonly clients = new ClientLog();
  readonly client = new LabClient(this.clients.add);
  readonly #workers = new Set<LabWorker>();
  readonly #deaths = new Map<string, number>();
  #starts = 0;

  private constructor(
    private readonly folder: string,
    private readonly program: string,
  ) {
    writeFileSync(this.#ledgerFile, '');
    writeFileSync(this.#eventsFile, '');
  }

  static async set(): Promise<Lab> {
    const folder = mkdtempSync(join(tmpdir(), 'idempotency-lab-'));
    return new Lab(folder, await compileWorker(folder));
  }

  get #ledgerFile(): string {
    return join(this.folder, 'ledger.jsonl');
  }

  get #eventsFile(): string {
    return join(this.folder, 'events.jsonl');
  }

  /** Every start is a worker of its own name, on a port of its own. */
  async start(store: StoreSettings, { options, effectDelayMs = 0, ...others }: StartOptions = {}) {
    this.#starts += 1;
    const worker = new LabWorker(this.program, {
      name: `worker-${this.#starts}`,
      store,
      options: { ...options, storeErrors: { ...TIMEOUT, ...options?.storeErrors } },
      ledgerFile: this.#ledgerFile,
      eventsFile: this.#eventsFile,
      effectDelayMs,
      ...others,
    });
    this.#workers.add(worker);
    void worker.untilExit().then(() => this.#workers.delete(worker));
    await worker.untilListening();
    return worker;
  }

  /** SIGKILL, at an instant that the oracle gets. */
  async kill(worker: LabWorker): Promise<void> {
    this.#deaths.set(worker.name, Date.now());
    await worker.kill();
  }

  /** Resolves when some worker has the record of `key`, as seen at the store. */
  async untilBegan(key: string): Promise<void> {
    const record = recordKeyOf(key);
    const hasBegun = (line: EventLine) => line.type === 'lab:began' && line.recordKey === record;
    await this.untilReported(hasBegun);
  }

  /** Resolves when the events file has such a line. */
  async untilReported(isIt: (line: EventLine) => boolean): Promise<void> {
    while (!this.events().some(isIt)) await delay(POLL_PAUSE_MS);
  }

  /** Resolves when the handler of `key` has had its effect: with a hold at `after_effect`, the attempt is running. */
  async untilEffect(key: string): Promise<void> {
    while (this.effects(key).length === 0) await delay(POLL_PAUSE_MS);
  }

  effects(key?: string): Effect[] {
    const effects = readLines<Effect>(this.#ledgerFile);
    return key === undefined ? effects : effects.filter((effect) => effect.key === key);
  }

  /** What was written about a key besides its effects. */
  eventsOf(key: string): EventLine[] {
    const record = recordKeyOf(key);
    return this.events().filter((line) => 'recordKey' in line && line.recordKey === record);
  }

  events(): EventLine[] {
    return readLines<EventLine>(this.#eventsFile);
  }

  evidence(stuck: readonly string[] = []): Evidence {
    const { clients } = this;
    return {
      ledger: this.effects(),
      events: this.events(),
      clients,
      stuck,
      deaths: this.#deaths,
    };
  }

  judge(allowed: Expectations, stuck?: readonly string[]): Verdict {
    return judge(this.evidence(stuck), allowed);
  }

  /** Ends all workers in the way of a deployment: what they still have to report, they report. */
  async terminate(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.terminate()));
  }

  async clear(): Promise<void> {
    this.client.close();
    await Promise.all([...this.#workers].map((worker) => worker.kill()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

import type { ApiResponse } from '../../faults/response.js';
import type { Effect, EventLine } from '../../faults/worker/lines.js';
import type { IdempotencyContext } from '../../../test/support/internals/core.js';
import {
  recoverableCall,
  RejectionMapper,
  valueFormat,
} from '../../../test/support/internals/call.js';
import { JSON_CODEC } from '../../../test/support/internals/codecs.js';
import { Random } from '../../../test/integration/differential/random.js';
import type { Coverage } from '../coverage.js';
import { History } from '../history.js';
import type { Fault, Plan } from '../plan.js';
import { Rules } from '../rules/rules.js';
import { Network } from './network.js';
import { SimulatedOperation } from './operations.js';
import { RecordServer } from './record-server.js';
import { SimulatedRequest, type Intent, type OutcomeBody } from './request.js';
import { Scheduler } from './scheduler.js';
import { serveCall } from './serve-call.js';
import { serveHttp } from './serve-http.js';
import { serveMessage } from './serve-message.js';
import { SimulatedProcess } from './simulated-process.js';

/** Longer than any response may take. */
const RESPONSE_LIMIT_MS = 60_000;

/** Stands for `RpcException` of `@nestjs/microservices`. */
class ClientException extends Error {
  constructor(private readonly error: string | object) {
    super('rejected');
  }

  getError(): string | object {
    return this.error;
  }
}

const SERVE = { http: serveHttp, call: serveCall, message: serveMessage };

/** All of an episode: processes, servers, the network between them, and what happened outside of the library. */
export class World {
  readonly scheduler: Scheduler;
  readonly history: History;
  readonly network: Network;
  readonly rules = new Rules(this);
  readonly servers: readonly RecordServer[];
  readonly operations: readonly SimulatedOperation[];
  readonly faultRandom: Random;
  readonly operationRandom: Random;
  readonly clientRandom: Random;
  readonly rejections = new RejectionMapper(ClientException);
  /** The external system that operations change. */
  readonly ledger: Effect[] = [];
  readonly outcomes = new Map<string, OutcomeBody>();
  readonly events: EventLine[] = [];
  readonly responses: ApiResponse[] = [];
  readonly deaths = new Map<string, number>();
  /** Keys whose record a server has lost. */
  readonly lostRecords = new Set<string>();
  /** Those of them that had an outcome, or whose attempt had let go of it. */
  readonly lostOutcomes = new Set<string>();
  /** When the retention of a key's record was first over: since then the key is another one. */
  readonly expiredAt = new Map<string, number>();
  /** Keys of which a server has replied that an earlier attempt's outcome is unknown, or that of other content. */
  readonly unknownOutcomes = new Set<string>();
  /** Contents that a server has found to differ from those of their key's record: `key fingerprint`. */
  readonly mismatches = new Set<string>();
  readonly takenOver = new Set<string>();
  readonly finishedAt = new Map<string, number>();
  readonly objections: string[] = [];
  readonly touched = new Map<string, Set<Fault>>();
  /** No more faults. */
  isHealed = false;
  isOver = false;
  private readonly slots: SimulatedProcess[] = [];
  /** By key: what its first request intends. */
  readonly intents = new Map<string, Intent>();
  private readonly keys = new Map<string, string>();
  private readonly executedBy = new Map<string, number>();
  private started = 0;
  private requests = 0;

  constructor(
    readonly plan: Plan,
    readonly coverage: Coverage,
  ) {
    const seeds = new Random(plan.seed);
    const next = () => new Random(seeds.integer(0, 2 ** 32 - 1));
    this.scheduler = new Scheduler(next());
    this.history = new History(() => this.scheduler.now);
    this.network = new Network(this, next());
    this.faultRandom = next();
    this.operationRandom = next();
    this.clientRandom = next();
    const other = plan.store === 'memory' ? 'transitions' : 'memory';
    this.servers = [new RecordServer(this, plan.store), new RecordServer(this, other)];
    this.operations = plan.operations.map(
      (each, index) => new SimulatedOperation(this, each, index),
    );
  }

  start(): void {
    for (let slot = 0; slot < this.plan.processes; slot += 1) this.startProcess(slot);
  }

  has(fault: Fault): boolean {
    return this.plan.faults.includes(fault);
  }

  /** Something that the oracle does not tolerate. Ends the episode. */
  object(objection: string): void {
    this.history.add('objection', objection);
    this.objections.push(objection);
  }

  latency(): number {
    return 0.1 + this.clientRandom.fraction();
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.scheduler.after(ms, resolve);
    });
  }

  living(): SimulatedProcess[] {
    return this.slots.filter(({ isAlive }) => isAlive);
  }

  restart(slot: number): void {
    this.scheduler.after(this.faultRandom.integer(1, 50), () => {
      if (!this.isOver) this.startProcess(slot);
    });
  }

  serverOf(recordKey: string | undefined): RecordServer {
    const { servers, operationRandom } = this;
    if (recordKey === undefined) return operationRandom.pick(servers);
    return servers[recordKey.charCodeAt(5) % servers.length]!;
  }

  /** A client has chosen a new key. */
  know(intent: Intent): void {
    this.intents.set(intent.key, intent);
    this.keys.set(intent.operation.recordKeyOf(intent.key), intent.key);
  }

  keyOf(recordKey: string): string {
    return this.keys.get(recordKey) ?? recordKey;
  }

  recoverable(name: string) {
    const operation = this.operations.find((each) => each.name === name);
    if (operation === undefined) return undefined;
    const { options } = operation;
    const { outcome } = options;
    const isHttp = operation.plan.kind === 'http';
    return recoverableCall({
      options: isHttp ? { ...options, outcome: { ...outcome, storeBody: false } } : options,
      keep: outcome.keep,
      format: valueFormat(JSON_CODEC),
    });
  }

  /** Sends a request to a process. @returns what its client gets. */
  async request(intent: Intent): Promise<ApiResponse> {
    const { clientRandom: random, scheduler } = this;
    while (this.living().length === 0) await this.pause(5);
    const process = random.pick(this.living());
    this.requests += 1;
    const response = new Promise<ApiResponse>((resolve) => {
      const request = new SimulatedRequest(this, this.requests, process, intent, resolve);
      this.history.add('request', request.id, process.name, intent.key, intent.content);
      process.receive(scheduler.now + this.latency(), () => {
        this.serve(request);
      });
      if (this.has('client leaves') && !this.isHealed && random.chance(0.15)) {
        scheduler.after(random.integer(0, 200), () => {
          request.leave();
        });
      }
      const limit = scheduler.after(RESPONSE_LIMIT_MS, () => {
        this.object(`a request for ${intent.key} got no response`);
        request.break('timeout');
      });
      request.onEnd = () => {
        limit.run = undefined;
      };
    });
    return this.note(await response);
  }

  /** An operation changes the external system. */
  effect(request: SimulatedRequest, context: IdempotencyContext): OutcomeBody {
    const { process, intent, id } = request;
    const { key, content } = intent;
    const execution = `${process.name}.${this.ledger.length}`;
    const body = { execution, key, content };
    if (process.contact('effect')) return body;
    const { attempt, fencingToken: fence, isTakeover } = context;
    const at = process.time();
    this.ledger.push({ key, attempt, fence, isTakeover, at, worker: process.name, execution });
    this.outcomes.set(execution, body);
    this.executedBy.set(execution, id);
    this.history.add('effect', execution, key, fence);
    return body;
  }

  /** Whether the request has executed the operation itself. */
  isOwn({ id }: SimulatedRequest, { execution }: OutcomeBody): boolean {
    return this.executedBy.get(execution) === id;
  }

  /** A fault strikes: one key, all that a process has in hand, or everything. */
  fault(
    fault: Fault,
    process?: SimulatedProcess,
    recordKey?: string,
    key = recordKey && this.keyOf(recordKey),
  ): void {
    const { coverage, history, scheduler } = this;
    coverage.count('faults', fault);
    history.add('fault', fault, process?.name, key);
    // A shutdown costs no lease.
    if (process !== undefined && fault !== 'drain') {
      process.troubledAt = Math.max(process.troubledAt, scheduler.now);
    }
    const processes = process === undefined ? this.living() : [process];
    const keys =
      key === undefined
        ? processes.flatMap(({ requests }) => [...requests].map(({ intent }) => intent))
        : [this.intents.get(key)].filter((intent) => intent !== undefined);
    for (const intent of keys) this.touch(intent, fault);
  }

  private touch({ key, operation }: Intent, fault: Fault): void {
    const recordKey = operation.recordKeyOf(key);
    const server = this.serverOf(recordKey);
    const record = server.recordOf(recordKey);
    const isOver = record?.state === 'in_progress' && record.leaseUntil <= server.nowMs;
    const state = isOver ? 'lease over' : (record?.state ?? 'absent');
    this.coverage.count('faults by states', `${state} × ${fault}`);
    const before = this.touched.get(key);
    if (before === undefined) this.touched.set(key, new Set([fault]));
    else before.add(fault);
  }

  private serve(request: SimulatedRequest): void {
    const { intent, process } = request;
    SERVE[intent.operation.plan.kind](request).catch((error: unknown) => {
      if (!process.isAlive) return;
      this.object(`a request for ${intent.key} failed: ${String((error as Error).stack)}`);
      request.break();
    });
  }

  private startProcess(slot: number): void {
    this.started += 1;
    this.slots[slot] = new SimulatedProcess(this, slot, `process-${this.started}`);
  }

  private note(response: ApiResponse): ApiResponse {
    this.responses.push(response);
    return response;
  }
}

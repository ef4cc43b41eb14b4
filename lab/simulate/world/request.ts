import { hash } from 'node:crypto';
import type { ApiResponse } from '../../faults/response.js';
import type { SimulatedOperation } from './operations.js';
import { INPUT } from './scheduler.js';
import type { SimulatedProcess } from './simulated-process.js';
import type { World } from './world.js';

/** What a client intends: the same key and content for every retry. */
export interface Intent {
  readonly key: string;
  readonly content: string;
  readonly operation: SimulatedOperation;
}

/** What a process responds. */
export interface Response {
  readonly status: number;
  readonly code?: string | undefined;
  readonly replayed: boolean;
  readonly idempotencyStatus?: string | undefined;
  readonly retryAfter?: number | undefined;
  /** Of an operation's own outcome. */
  readonly body?: OutcomeBody | undefined;
}

export interface OutcomeBody {
  readonly execution: string;
  readonly key: string;
  readonly content: string;
}

/** One request on its way through a process and back. */
export class SimulatedRequest {
  readonly sentAt: number;
  /** Aborted when the client leaves. */
  readonly disconnection = new AbortController();
  /** The response is on its way: it arrives whatever becomes of the process. */
  isWritten = false;
  onEnd: (() => void) | undefined;
  private hasEffect = false;
  private hasFailed = false;
  private resolve: ((response: ApiResponse) => void) | undefined;

  constructor(
    readonly world: World,
    readonly id: number,
    readonly process: SimulatedProcess,
    readonly intent: Intent,
    resolve: (response: ApiResponse) => void,
  ) {
    this.sentAt = world.scheduler.now;
    this.resolve = resolve;
    process.requests.add(this);
  }

  /** The operation is about to have its effect. @returns whether it has not failed before. */
  succeed(): boolean {
    this.hasEffect = !this.hasFailed;
    return this.hasEffect;
  }

  /** @returns whether it has not had its effect before. */
  fail(): boolean {
    this.hasFailed = !this.hasEffect;
    return this.hasFailed;
  }

  get isOpen(): boolean {
    return this.resolve !== undefined;
  }

  /** The process writes the response. */
  respond(response: Response): void {
    const { process, world } = this;
    if (!process.isAlive || process.contact('response')) return;
    this.isWritten = true;
    world.rules.responses.sends(this, response);
    world.scheduler.at(process.time() + world.latency(), INPUT, () => {
      this.arrive(response);
    });
  }

  /** The connection breaks. */
  break(error = 'ECONNRESET'): void {
    this.end({ error, replayed: false });
  }

  /** The client does not wait any longer. The process notices. */
  leave(): void {
    if (!this.isOpen) return;
    const { process, world } = this;
    world.fault('client leaves', undefined, undefined, this.intent.key);
    process.receive(world.scheduler.now + world.latency(), () => {
      this.disconnection.abort();
    });
    this.end({ error: 'ABORT_ERR', replayed: false });
  }

  private arrive({ body, status, replayed, code, idempotencyStatus, retryAfter }: Response): void {
    if (!this.isOpen) return;
    const { intent, world, process } = this;
    const text = body === undefined ? '' : JSON.stringify(body);
    world.history.add('response', process.name, intent.key, status, text);
    const digest = hash('sha256', text, 'base64url');
    this.end({
      status,
      replayed,
      ...(code !== undefined && { code }),
      ...(idempotencyStatus !== undefined && { idempotencyStatus }),
      ...(retryAfter !== undefined && { retryAfter }),
      ...(body !== undefined && { digest, execution: body.execution }),
    });
  }

  private end(response: Partial<ApiResponse> & Pick<ApiResponse, 'replayed'>): void {
    const { resolve, intent, process, sentAt, world } = this;
    if (resolve === undefined) return;
    this.resolve = undefined;
    process.requests.delete(this);
    this.onEnd?.();
    const place = { key: intent.key, url: process.name, sentAt, receivedAt: world.scheduler.now };
    resolve({ ...place, ...response });
  }
}

import { randomUUID } from 'node:crypto';
import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { Gate } from '../waiting/gate.js';
import {
  sendRaw,
  KeepAliveConnection,
  type PendingRequest,
  type RawRequest,
} from './wire/raw-client.js';
import type { RawResponse } from './wire/raw-response.js';
import { Tally } from '../waiting/tally.js';

export const SCENARIO_HEADER = 'x-scenario';
const running = new Map<string, Scenario>();

export interface Sending {
  /** The header's value as it is sent; several for several lines, `null` for none. */
  readonly key?: string | readonly string[] | null;
  /** The name of the header that carries it. */
  readonly keyHeader?: string;
  /** The bearer token, `null` for none. */
  readonly as?: string | null;
  readonly json?: unknown;
  /** A body that is not JSON, or JSON in a spelling of its own. */
  readonly body?: string | Buffer;
  readonly type?: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** The port of another application with the same scenario: another process as far as the library can see. */
  readonly port?: number;
}

/**
 * One test's scenario: its own key, a count of its effects in the application under test, and a gate before
 * them. Handlers identify it by a header that the library does not read.
 */
export class Scenario {
  readonly id = randomUUID();
  readonly key = randomUUID();
  /** Requests that reached the guards. */
  readonly arrived = new Tally();
  /** The effects: the counted executions of a handler, whatever is reported. */
  readonly started = new Tally();
  /** Executions that passed the gate. */
  readonly passed = new Tally();
  /** Closed connections of the scenario's requests, as the server sees it. */
  readonly disconnected = new Tally();
  readonly gate = new Gate();
  /** Fires what an outer interceptor of the test waits for, instead of a timer. */
  readonly timeout = new Gate();
  /** Users who are no longer allowed to call. */
  readonly forbidden = new Set<unknown>();
  /** What a handler does in its first, second, … execution; by default it succeeds. */
  plan: readonly string[] = [];
  /** Anything that a handler shows the test. */
  readonly notes: any[] = [];

  constructor(private readonly port: number) {
    running.set(this.id, this);
  }

  get executions(): number {
    return this.started.count;
  }

  /** The effect. @returns its number, so that no two executions have the same response. */
  async run(): Promise<number> {
    const execution = this.started.add();
    await this.gate.pass();
    this.passed.add();
    return execution;
  }

  /** The effect, and the default response. */
  async response(): Promise<{ execution: number }> {
    return { execution: await this.run() };
  }

  planned(execution: number): string {
    return this.plan[execution - 1] ?? 'succeed';
  }

  post(path: string, sending: Sending = {}): Promise<RawResponse> {
    return this.send('POST', path, sending);
  }

  send(method: string, path: string, sending: Sending = {}): Promise<RawResponse> {
    return this.start(method, path, sending).response;
  }

  /** Sends without waiting for the response. */
  start(method: string, path: string, sending: Sending = {}): PendingRequest {
    return sendRaw(sending.port ?? this.port, this.request(method, path, sending));
  }

  /** Several posts, one after the other, on one connection. */
  async postOnOneConnection(path: string, sendings: readonly Sending[]): Promise<RawResponse[]> {
    const connection = new KeepAliveConnection(this.port);
    const responses: RawResponse[] = [];
    for (const sending of sendings) {
      responses.push(await connection.exchange(this.request('POST', path, sending)));
    }
    connection.close();
    return responses;
  }

  /** The same post, one after the other on one connection, without keeping the responses. */
  async *repeatedPosts(path: string, times: number): AsyncGenerator<RawResponse> {
    const connection = new KeepAliveConnection(this.port);
    for (let time = 0; time < times; time += 1) {
      yield await connection.exchange(this.request('POST', path, {}));
    }
    connection.close();
  }

  private request(method: string, path: string, sending: Sending): RawRequest {
    const {
      key = this.key,
      keyHeader = 'Idempotency-Key',
      as = 'alice',
      json,
      body,
      type,
    } = sending;
    const lines: (readonly [string, string])[] = [[SCENARIO_HEADER, this.id]];
    if (as !== null) lines.push(['Authorization', `Bearer ${as}`]);
    const keys = key === null ? [] : typeof key === 'string' ? [key] : key;
    for (const value of keys) lines.push([keyHeader, value]);
    const text = json === undefined ? body : JSON.stringify(json);
    if (text !== undefined) lines.push(['Content-Type', type ?? 'application/json']);
    lines.push(...(sending.headers ?? []));
    return { method, path, lines, body: text === undefined ? undefined : Buffer.from(text) };
  }
}

export function scenarioOf(request: { headers: Record<string, unknown> }): Scenario {
  const scenario = running.get(String(request.headers[SCENARIO_HEADER]));
  if (scenario === undefined) throw new Error('the request belongs to no scenario');
  return scenario;
}

/** The scenario that the request belongs to. */
export const InScenario = createParamDecorator((_: unknown, context: ExecutionContext) =>
  scenarioOf(context.switchToHttp().getRequest()),
);

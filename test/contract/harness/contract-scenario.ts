import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  KeepAliveConnection,
  sendBytes,
  type PendingRequest,
} from '../../support/http/wire/raw-client.js';
import type { RawResponse } from '../../support/http/wire/raw-response.js';
import { fill, readRequests, type RequestTemplate, type Values } from './request-files.js';

/** The server's report on a scenario, see README.md. */
export interface Counts {
  readonly arrivals: number;
  readonly executions: number;
  readonly disconnects: number;
}

const TIMEOUT_MS = 10_000;
const POLL_MS = 10;

/** One test against one server: the clause's requests, with its own key and count of effects. */
export class ContractScenario {
  readonly #requests: ReadonlyMap<string, RequestTemplate>;

  constructor(
    readonly port: number,
    private readonly clause: string,
    readonly key: string = randomUUID(),
    readonly scenario: string = randomUUID(),
  ) {
    this.#requests = readRequests(clause);
  }

  /** The same scenario on another server. */
  at({ port }: { readonly port: number }): ContractScenario {
    return new ContractScenario(port, this.clause, this.key, this.scenario);
  }

  /** Sends one of the clause's requests on a connection of its own. */
  send(name: string, values?: Values): Promise<RawResponse> {
    return this.start(name, values).response;
  }

  /** Sends without waiting for the response. */
  start(name: string, values?: Values): PendingRequest {
    return sendBytes(this.port, this.#request(name).method, this.#bytes(name, values));
  }

  /** Sends without waiting, and returns once its handler runs, held at the closed gate. */
  async hold(name: string, values?: Values): Promise<PendingRequest> {
    await this.order('close-gate');
    const pending = this.start(name, values);
    await this.reach({ executions: 1 });
    return pending;
  }

  /** Sends the requests one after the other on one connection. */
  async sendOnOneConnection(...names: string[]): Promise<RawResponse[]> {
    const connection = new KeepAliveConnection(this.port);
    const responses: RawResponse[] = [];
    for (const name of names) {
      const { method } = this.#request(name);
      responses.push(await connection.exchangeBytes(method, this.#bytes(name)));
    }
    connection.close();
    return responses;
  }

  /** Retries until the response is final: the outcome of the previous attempt. */
  async sendUntil(
    isThere: (response: RawResponse) => boolean,
    name: string,
    values?: Values,
  ): Promise<RawResponse> {
    const giveUpAt = performance.now() + TIMEOUT_MS;
    for (;;) {
      const response = await this.send(name, values);
      if (isThere(response) || performance.now() > giveUpAt) return response;
      await pause(POLL_MS);
    }
  }

  /** Retries while an attempt is in progress or the store is unavailable. */
  sendOnceSettled(name: string): Promise<RawResponse> {
    return this.sendUntil(({ text }) => !/_in_progress|_store_unavailable/.test(text), name);
  }

  /** How often the operation ran. */
  async executions(): Promise<number> {
    return (await this.#counts()).executions;
  }

  /** Waits until the server has counted this many. */
  async reach(wanted: Partial<Counts>): Promise<void> {
    const giveUpAt = performance.now() + TIMEOUT_MS;
    for (;;) {
      const counts = await this.#counts();
      const names = Object.keys(wanted) as (keyof Counts)[];
      if (names.every((name) => counts[name] >= (wanted[name] ?? 0))) return;
      if (performance.now() > giveUpAt) {
        throw new Error(`${JSON.stringify(wanted)} never came, but ${JSON.stringify(counts)}`);
      }
      await pause(POLL_MS);
    }
  }

  /** Sends an order to the server for this scenario: `close-gate`, `forbid/alice` … */
  order(command: string): Promise<string> {
    return this.control(`scenarios/${this.scenario}/${command}`, 'POST');
  }

  /** One of the routes below /control, for all scenarios. */
  async control(path: string, method: 'GET' | 'POST'): Promise<string> {
    const response = await fetch(`http://127.0.0.1:${this.port}/control/${path}`, { method });
    if (!response.ok) throw new Error(`/control/${path} answered ${response.status}`);
    return response.text();
  }

  async #counts(): Promise<Counts> {
    return JSON.parse(await this.control(`scenarios/${this.scenario}`, 'GET')) as Counts;
  }

  #request(name: string): RequestTemplate {
    const request = this.#requests.get(name);
    if (request === undefined) throw new Error(`${this.clause} has no request "${name}"`);
    return request;
  }

  #bytes(name: string, values: Values = {}): Buffer {
    const { port, key, scenario } = this;
    return fill(this.#request(name), { host: `127.0.0.1:${port}`, key, scenario, ...values });
  }
}

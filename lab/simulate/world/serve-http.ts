import { entryOf, type Entry, executionScope } from '../../../test/support/internals/core.js';
import {
  HttpExecution,
  problems,
  replayOf,
  STATUS_HEADER,
  type HttpRoute,
  type RecordedResponse,
} from '../../../test/support/internals/http.js';
import { CALLER } from '../../faults/client.js';
import { handle } from './handle.js';
import { MAX_BYTES, OperationError, type SimulatedOperation } from './operations.js';
import type { OutcomeBody, Response, SimulatedRequest } from './request.js';

const REPLAY_HEADER = 'idempotent-replayed';
const PROTECTION_HEADER = STATUS_HEADER.toLowerCase();

/** Not the handler's: an interceptor does not wait any longer. */
const TIMEOUT: Response = { status: 504, code: 'timeout', replayed: false };

/** What code around the handler does to its response. */
const SURROUNDINGS = [
  /** An interceptor unsubscribes and responds, or throws, while the handler runs. */
  ['outer timeout', 0.03],
  ['inner timeout', 0.03],
  /** An interceptor has responded before the handler could start. */
  ['not called', 0.02],
  ['pipe fails', 0.03],
  /** A decorator calls a failed method again. */
  ['wrapper', 0.05],
  ['serializer fails', 0.02],
  ['source fails', 0.02],
  ['too large', 0.03],
] as const;

type Surrounding = (typeof SURROUNDINGS)[number][0];

function routeOf(operation: SimulatedOperation, isNative: boolean): HttpRoute {
  const { options } = operation;
  const { retryAfter: retryAfterMs } = options.duplicates;
  return {
    operation: operation.name,
    options: { ...options, http: { replayHeader: REPLAY_HEADER } },
    isNative,
    isOutermost: () => false,
    routeHeaders: new Set<string>(),
    replayHeaders: 'all',
    neverReplayHeaders: new Set(),
    problems: { typeBase: 'https://example.com', retryAfterMs },
  } as unknown as HttpRoute;
}

/** As interceptor and handler of a route do it, with a response of the simulation's own. */
export async function serveHttp(request: SimulatedRequest): Promise<void> {
  const { process, intent, world } = request;
  const { operation, key, content } = intent;
  const random = world.operationRandom;
  const isNative = operation.plan.onTakeover !== 'recover' && random.chance(0.15);
  const route = routeOf(operation, isNative);
  const { signal: clientSignal } = request.disconnection;
  const operationRequest = {
    recordKey: operation.recordKeyOf(key),
    fingerprint: operation.fingerprintOf(content),
    operation: operation.name,
    transport: 'http' as const,
    scope: [CALLER],
    key,
    options: operation.options,
    clientSignal,
    ...(random.chance(0.1) && { waitAtMostMs: random.integer(0, 200) }),
  };
  const decision = await process.engine.begin(operationRequest);
  const entry = entryOf(decision, operationRequest, { get: noService });
  if (entry.kind === 'run') {
    await new HttpServing(request, route, entry).run();
    return;
  }
  const response = replayOf(entry, route);
  if (typeof response !== 'string') send(request, response);
  else send(request, problems.IdempotencyProblem.of(response, route.problems).toResponse());
}

function noService(): never {
  throw new Error('There are no services.');
}

class HttpServing {
  private readonly execution: HttpExecution;
  private readonly headers: Record<string, string>;
  private readonly surrounding: Surrounding | undefined;
  /** An interceptor has responded. */
  private hasResponded = false;
  private hasEnded = false;

  constructor(
    private readonly request: SimulatedRequest,
    private readonly route: HttpRoute,
    { attempt, scope }: Extract<Entry, { kind: 'run' }>,
  ) {
    this.headers = attempt.isProtected ? {} : { [PROTECTION_HEADER]: 'unprotected' };
    this.execution = new HttpExecution(attempt, route, scope, { ...this.headers }, 201);
    let fraction = request.world.operationRandom.fraction();
    const found = SURROUNDINGS.find(([, part]) => (fraction -= part) < 0);
    this.surrounding = route.isNative ? undefined : found?.[0];
    request.world.coverage.count('surroundings', this.surrounding ?? 'none');
  }

  async run(): Promise<void> {
    const { execution, request, surrounding } = this;
    if (surrounding === 'not called') {
      execution.report({ kind: 'notCalled' });
      request.respond(TIMEOUT);
      return;
    }
    const stream = execution.streamStarted();
    this.watchClient();
    if (this.route.isNative && request.world.operationRandom.chance(0.3)) this.failEarly();
    if (surrounding === 'outer timeout' || surrounding === 'inner timeout') this.timeOut(stream);
    try {
      const body = await executionScope.run(execution.scope, () => this.call());
      this.hasEnded = true;
      await this.returned(stream, body);
    } catch (error) {
      this.hasEnded = true;
      if (!(error instanceof OperationError)) throw error;
      if (this.hasResponded && surrounding === 'inner timeout') return;
      execution.streamFailed(stream, error);
      if (this.hasResponded) return;
      await this.respond(error.status, { code: error.message });
    }
  }

  private async returned(stream: number, body: OutcomeBody): Promise<void> {
    const { execution, hasResponded, request, route, surrounding } = this;
    const completed = () => {
      execution.report({ kind: 'streamCompleted', stream, status: 201 });
    };
    if (hasResponded && surrounding === 'inner timeout') return;
    if (!route.isNative) completed();
    if (hasResponded) return;
    const { world, disconnection } = request;
    // The client has left, and nothing makes a response without a connection.
    const hasNoResponse = disconnection.signal.aborted && world.operationRandom.chance(0.5);
    if (hasNoResponse) {
      if (route.isNative) completed();
      return;
    }
    if (surrounding === 'serializer fails') await this.respond(500, { code: 'broken' });
    else await this.respond(201, body);
    if (route.isNative) completed();
  }

  /** Pipes, decorators and the method. */
  private async call(): Promise<OutcomeBody> {
    const { request, surrounding } = this;
    const { scope } = this.execution;
    if (surrounding === 'pipe fails') throw new OperationError(400);
    if (surrounding !== 'wrapper') return handle(request, scope);
    scope.enterWrapper();
    try {
      const body = await handle(request, scope).catch(() => handle(request, scope));
      scope.leaveWrapper('returned');
      return body;
    } catch (error) {
      scope.leaveWrapper('threw');
      throw error;
    }
  }

  private watchClient(): void {
    const { signal } = this.request.disconnection;
    const clientGone = () => {
      this.execution.report({ kind: 'clientGone', hasBegun: false });
    };
    if (signal.aborted) clientGone();
    else signal.addEventListener('abort', clientGone);
  }

  /** The handler responds that it failed, and goes on for a while. */
  private failEarly(): void {
    const { process, world } = this.request;
    void process.sleep(world.operationRandom.integer(1, 60)).then(() => {
      if (this.hasEnded || !process.isAlive || !this.request.fail()) return;
      this.hasResponded = true;
      void this.respond(500, { code: 'failed' });
    });
  }

  private timeOut(stream: number): void {
    const { execution, request, surrounding } = this;
    const { process, world } = request;
    void process.sleep(world.operationRandom.integer(1, 60)).then(() => {
      if (this.hasEnded || !process.isAlive) return;
      this.hasResponded = true;
      if (surrounding === 'outer timeout') execution.report({ kind: 'streamAbandoned', stream });
      else execution.streamFailed(stream, new Error('timeout'));
      if (execution.onStart(TIMEOUT.status) === 'pass') request.respond(TIMEOUT);
      else void this.respond(504, { code: 'timeout' }, true);
    });
  }

  private async respond(
    status: number,
    content: OutcomeBody | { readonly code: string },
    isHeld = false,
  ): Promise<void> {
    const { execution, headers, request, surrounding } = this;
    const isLarge = surrounding === 'too large';
    const text = JSON.stringify({ ...content, padding: isLarge ? 'x'.repeat(MAX_BYTES) : '' });
    const own: RecordedResponse = {
      status,
      headers: { ...headers, 'content-type': 'application/json' },
      body: Buffer.from(text),
    };
    if (!isHeld && execution.onStart(status) === 'pass') {
      send(request, own);
      return;
    }
    if (surrounding === 'source fails') {
      // What has been sent of the body is cut off.
      execution.onSourceError();
      await execution.onComplete({ ...own, body: own.body.subarray(0, 5) });
      if (request.process.isAlive) request.break();
      return;
    }
    const settlement = isLarge
      ? await execution.onOverflow(status)
      : await execution.onComplete(own);
    const replacement = execution.replacementAfter(settlement);
    const { status: sent, headers: fields, body } = replacement ?? own;
    send(request, { status: sent, headers: { ...headers, ...fields }, body });
  }
}

function send(request: SimulatedRequest, { status, headers, body }: RecordedResponse): void {
  const parsed = JSON.parse(Buffer.from(body).toString() || '{}') as Partial<OutcomeBody> & {
    code?: string;
  };
  const { execution, key, content, code } = parsed;
  const protection = headers[PROTECTION_HEADER];
  const retryAfter = headers['retry-after'];
  request.respond({
    status,
    code,
    replayed: headers[REPLAY_HEADER] === 'true',
    ...(typeof protection === 'string' && { idempotencyStatus: protection }),
    ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
    ...(execution !== undefined && { body: { execution, key: key!, content: content! } }),
  });
}

import { AsyncLocalStorage } from 'node:async_hooks';
import {
  createParamDecorator,
  GatewayTimeoutException,
  HttpException,
  Injectable,
  Module,
  ServiceUnavailableException,
  SetMetadata,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR, HttpAdapterHost } from '@nestjs/core';
import { Observable } from 'rxjs';

/**
 * Stands for `@nestjs/resilience`, which cannot be installed here, and does what its documentation says: one global
 * interceptor applies the decorators, from the outside in fallback, retry, breaker, timeout, bulkhead; each attempt calls
 * the handler anew and has a signal, which a timeout aborts. Names of classes and metadata are its own.
 */
interface Attempt {
  readonly signal: AbortSignal;
  readonly attempt: number;
}

const attempts = new AsyncLocalStorage<Attempt>();

@Injectable()
export class ResilienceContext {
  get signal(): AbortSignal | undefined {
    return attempts.getStore()?.signal;
  }

  get attempt(): number | undefined {
    return attempts.getStore()?.attempt;
  }

  run<Result>(
    { signal, attempt = 1 }: { signal: AbortSignal; attempt?: number },
    body: () => Result,
  ): Result {
    return attempts.run({ signal, attempt }, body);
  }
}

export const Signal = createParamDecorator(() => attempts.getStore()?.signal);

interface Stages {
  readonly fallback?: (error: unknown) => unknown;
  readonly retry?: { readonly attempts: number };
  readonly breaker?: string;
  /** In place of a duration: resolves when the attempt is given up. */
  readonly timeout?: (context: ExecutionContext) => Promise<unknown>;
  readonly bulkhead?: { readonly name: string; readonly maxConcurrent: number };
}

const stage =
  <Name extends keyof Stages>(name: Name) =>
  (value: NonNullable<Stages[Name]>) =>
    SetMetadata(KEYS[name], value);

const KEYS: Readonly<Record<keyof Stages, string>> = {
  fallback: 'resilience:fallback',
  retry: 'resilience:retry',
  breaker: 'resilience:circuit-breaker',
  timeout: 'resilience:timeout',
  bulkhead: 'resilience:bulkhead',
};

export const Fallback = stage('fallback');
/** As with `idempotent: true`. */
export const Retry = stage('retry');
export const CircuitBreaker = stage('breaker');
export const Timeout = stage('timeout');
export const Bulkhead = stage('bulkhead');

class CircuitOpenError extends Error {}
class BulkheadFullError extends Error {}
export class ResilienceTimeoutError extends Error {}

const REJECTIONS = [CircuitOpenError, BulkheadFullError];

/** Opened by hand. */
class Breaker {
  isOpen = false;
  calls = 0;
  failures = 0;
  rejected = 0;

  async run<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.isOpen) {
      this.rejected += 1;
      throw new CircuitOpenError();
    }
    try {
      const result = await call();
      this.calls += 1;
      return result;
    } catch (error) {
      if (!isClientError(error) && !REJECTIONS.some((type) => error instanceof type)) {
        this.calls += 1;
        this.failures += 1;
      }
      throw error;
    }
  }
}

class Slots {
  active = 0;
  admitted = 0;
  rejected = 0;

  async run<Result>(maxConcurrent: number, call: () => Promise<Result>): Promise<Result> {
    if (this.active >= maxConcurrent) {
      this.rejected += 1;
      throw new BulkheadFullError();
    }
    this.active += 1;
    this.admitted += 1;
    try {
      return await call();
    } finally {
      this.active -= 1;
    }
  }
}

@Injectable()
export class ResilienceService {
  private readonly breakers = new Map<string, Breaker>();
  private readonly bulkheads = new Map<string, Slots>();

  circuitBreaker(name: string): Breaker {
    return found(this.breakers, name, () => new Breaker());
  }

  bulkhead(name: string): Slots {
    return found(this.bulkheads, name, () => new Slots());
  }
}

function found<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  const value = map.get(name) ?? make();
  map.set(name, value);
  return value;
}

@Injectable()
export class ResilienceInterceptor implements NestInterceptor {
  constructor(
    private readonly service: ResilienceService,
    private readonly host: HttpAdapterHost,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const stages = stagesOf(context);
    if (Object.keys(stages).length === 0) return next.handle();
    return new Observable((subscriber) => {
      const execution = new AbortController();
      this.run(stages, context, next, execution.signal).then(
        (value) => {
          subscriber.next(value);
          subscriber.complete();
        },
        (error: unknown) => {
          subscriber.error(this.mapped(error, context));
        },
      );
      return () => {
        execution.abort();
      };
    });
  }

  private async run(
    { fallback, retry, breaker, timeout, bulkhead }: Stages,
    context: ExecutionContext,
    next: CallHandler,
    signal: AbortSignal,
  ): Promise<unknown> {
    const admitted = (attempt: Attempt) => () => {
      const call = () => valueOf(next, attempt);
      if (bulkhead === undefined) return call();
      return this.service.bulkhead(bulkhead.name).run(bulkhead.maxConcurrent, call);
    };
    const timed = (attempt: number) => () => {
      if (timeout === undefined) return admitted({ attempt, signal })();
      const own = new AbortController();
      const error = new ResilienceTimeoutError('too slow');
      const givenUp = timeout(context).then(() => {
        own.abort(error);
        throw error;
      });
      return Promise.race([admitted({ attempt, signal: own.signal })(), givenUp]);
    };
    const guarded = (attempt: number) =>
      breaker === undefined
        ? timed(attempt)()
        : this.service.circuitBreaker(breaker).run(timed(attempt));
    try {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await guarded(attempt);
        } catch (error) {
          const isFinal = isClientError(error) || REJECTIONS.some((type) => error instanceof type);
          if (isFinal || attempt >= (retry?.attempts ?? 1)) throw error;
        }
      }
    } catch (error) {
      if (fallback === undefined || isClientError(error)) throw error;
      return fallback(error);
    }
  }

  /** To the error of the transport: here, of HTTP. */
  private mapped(error: unknown, context: ExecutionContext): unknown {
    if (context.getType() !== 'http') return error;
    if (error instanceof ResilienceTimeoutError) {
      return new GatewayTimeoutException({ code: 'TIMEOUT' });
    }
    if (error instanceof BulkheadFullError) {
      return new ServiceUnavailableException({ code: 'BULKHEAD_FULL' });
    }
    if (!(error instanceof CircuitOpenError)) return error;
    this.host.httpAdapter.setHeader(context.switchToHttp().getResponse(), 'Retry-After', '30');
    return new ServiceUnavailableException({ code: 'CIRCUIT_OPEN' });
  }
}

/** The handler's last value. Leaves its stream when the attempt is given up. */
function valueOf(next: CallHandler, attempt: Attempt): Promise<unknown> {
  return attempts.run(
    attempt,
    () =>
      new Promise((resolve, reject) => {
        const { signal } = attempt;
        if (signal.aborted) {
          reject(signal.reason as Error);
          return;
        }
        let last: unknown;
        const subscription = next.handle().subscribe({
          next: (value) => {
            last = value;
          },
          error: reject,
          complete: () => {
            resolve(last);
          },
        });
        signal.addEventListener('abort', () => {
          subscription.unsubscribe();
          reject(signal.reason as Error);
        });
      }),
  );
}

function isClientError(error: unknown): boolean {
  return error instanceof HttpException && error.getStatus() < 500;
}

function stagesOf(context: ExecutionContext): Stages {
  const stages = Object.entries(KEYS).flatMap(([name, key]) => {
    const value: unknown =
      Reflect.getMetadata(key, context.getHandler()) ??
      Reflect.getMetadata(key, context.getClass());
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(stages) as Stages;
}

@Module({
  providers: [
    ResilienceContext,
    ResilienceService,
    ResilienceInterceptor,
    { provide: APP_INTERCEPTOR, useExisting: ResilienceInterceptor },
  ],
  exports: [ResilienceContext, ResilienceService],
})
export class ResilienceModule {}

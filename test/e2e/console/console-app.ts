import {
  Catch,
  Injectable,
  ValidationPipe,
  VersioningType,
  type ArgumentsHost,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { map } from 'rxjs';
import {
  IdempotencyRecords,
  IdempotencyService,
  type IdempotencyStore,
  type IdempotencyModuleOptions,
  type OperatorAction,
} from 'nestjs-idempotency';
import {
  IdempotencyConsoleModule,
  type ConsolePermission,
  type IdempotencyConsoleOptions,
} from 'nestjs-idempotency/console';
import { memoryStore } from 'nestjs-idempotency/memory';
import type { RecordKey } from 'nestjs-idempotency/store';
import { abandon, LEASE_MS } from '../../support/engine/abandon.js';
import type { Platform } from '../../support/http/combinations.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';

const OPEN: CanActivate = { canActivate: () => true };

const headerOf = (context: ExecutionContext, name: string): string | undefined =>
  context.switchToHttp().getRequest<{ headers: Record<string, string | undefined> }>().headers[
    name
  ];

/** Lets in who says so. */
@Injectable()
export class AdminGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return headerOf(context, 'x-admin') === 'yes';
  }
}

@Catch()
class JsonErrors {
  constructor(private readonly host: HttpAdapterHost) {}

  catch(_: unknown, host: ArgumentsHost): void {
    this.host.httpAdapter.reply(host.switchToHttp().getResponse(), { filter: true }, 418);
  }
}

/** What an application has around its routes. */
export const SURROUNDINGS = {
  plain: { prefix: '', configure: () => undefined },
  'prefix, versions, pipe, interceptor, filter': {
    prefix: '/api/v',
    configure: (nest: INestApplication) => {
      nest.setGlobalPrefix('api/v');
      nest.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
      nest.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
      nest.useGlobalInterceptors({
        intercept: (_: unknown, next: { handle: () => any }) =>
          next.handle().pipe(map((data: unknown) => ({ data }))),
      });
      nest.useGlobalFilters(new JsonErrors(nest.get(HttpAdapterHost)));
    },
  },
} as const;

export interface ConsoleAppOptions {
  readonly platform: Platform;
  readonly surroundings?: keyof typeof SURROUNDINGS;
  readonly console?: Partial<IdempotencyConsoleOptions>;
  readonly options?: Omit<IdempotencyModuleOptions, 'store'>;
  /** Puts another store in front. */
  readonly wrap?: (store: IdempotencyStore) => IdempotencyStore;
}

/** An application with the console, whose time is driven, and who an operator is stands in each request. */
export class ConsoleApp {
  private constructor(
    private readonly app: TestApp,
    private readonly prefix: string,
    readonly store: IdempotencyStore,
    private readonly clock: { now: number },
  ) {}

  static async start(given: ConsoleAppOptions): Promise<ConsoleApp> {
    const { platform, surroundings = 'plain', options = {}, wrap = (each) => each } = given;
    const clock = { now: Date.UTC(2026, 0, 1) };
    const store = memoryStore({ now: () => clock.now });
    const { prefix, configure } = SURROUNDINGS[surroundings];
    const app = await startApp({
      platform,
      controllers: [],
      store: wrap(store),
      options,
      guard: OPEN,
      configure,
      imports: [
        IdempotencyConsoleModule.forRoot({
          path: 'admin/records',
          guards: [AdminGuard],
          readOnly: false,
          operator: (context) => ({
            actor: headerOf(context, 'x-actor') ?? 'mia',
            may: (headerOf(context, 'x-may') ?? '')
              .split(' ')
              .filter(Boolean) as ConsolePermission[],
          }),
          ...given.console,
        }),
      ],
    });
    return new ConsoleApp(app, prefix, store, clock);
  }

  get url(): string {
    return `http://127.0.0.1:${String(this.app.port)}${this.prefix}/admin/records`;
  }

  get records(): IdempotencyRecords {
    return this.app.nest.get(IdempotencyRecords, { strict: false });
  }

  get calls(): IdempotencyService {
    return this.app.nest.get(IdempotencyService, { strict: false });
  }

  get nest(): INestApplication {
    return this.app.nest;
  }

  close(): Promise<void> {
    return this.app.close();
  }

  pass(ms: number): void {
    this.clock.now += ms;
  }

  /** A record whose process died. */
  async abandoned(): Promise<RecordKey> {
    const { lease } = await abandon(this.store, 'settle');
    this.pass(LEASE_MS);
    return lease.recordKey;
  }

  /** One whose outcome has been stored for long enough to be dropped. */
  async completed(): Promise<RecordKey> {
    const { lease } = await abandon(this.store, 'settle');
    const { fingerprint } = (await this.store.inspect(lease.recordKey, { timeoutMs: 1_000 }))!;
    const outcome = { header: '["call"]', body: Buffer.from('"done"') };
    const settled = { state: 'completed', outcome, retentionMs: 86_400_000 } as const;
    await this.store.complete(lease, {
      ...settled,
      fingerprint,
      whenGone: 'report',
      timeoutMs: 1_000,
    });
    this.pass(3_600_000);
    return lease.recordKey;
  }

  /** What the store has, without its times. */
  async stored(recordKey: RecordKey): Promise<object | undefined> {
    const record = await this.store.inspect(recordKey, { timeoutMs: 1_000 });
    return record && { state: record.state, fence: record.fence, outcome: record.outcome };
  }
}

/** The fields of an action's form as a page would send them. */
export async function formOf(
  app: ConsoleApp,
  recordKey: RecordKey,
  action?: OperatorAction,
): Promise<Record<string, string>> {
  const { state, fence } = (await app.records.explain(recordKey))!.expected;
  return {
    state,
    fence: String(fence),
    reason: 'the provider has it',
    ...((action === 'retain' || action === 'complete') && { retention: '7d' }),
    typed: recordKey.slice(0, 6),
  };
}

/** From a page of the console itself. */
export const OWN = { 'sec-fetch-site': 'same-origin', 'x-admin': 'yes' } as const;

export function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  fields: Readonly<Record<string, string>>,
): Promise<Response> {
  return fetch(url, { method: 'POST', headers, body: new URLSearchParams(fields) });
}

import {
  Injectable,
  Logger,
  type BeforeApplicationShutdown,
  type LoggerService,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyEvents } from '../core/record/events.js';
import { IdempotencyStore, type StoreObserver } from '../core/store/idempotency-store.js';
import {
  addRecordingHook,
  type FastifyInstance,
} from '../transports/http/response/fastify-recorder.js';
import { checkRegistrations } from './discovery/module-registrations.js';
import { LogReporter } from './log-reporter.js';
import { RouteRegistry } from './registry/route-registry.js';

/** Starts and ends the layer with the application. */
@Injectable()
export class IdempotencyLifecycle
  implements OnModuleInit, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new Logger('Idempotency');
  /** The application's own, by which the store tells it from others that have it open, too. */
  private readonly observer: StoreObserver = {
    replyMismatched: (error) => {
      this.events.emit({ type: 'reply_mismatched', error });
    },
    warned: ({ code, message }) => {
      this.logger.warn(`${message} [${code}]`);
    },
  };

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteRegistry,
    private readonly store: IdempotencyStore,
    private readonly engine: IdempotencyEngine,
    private readonly events: IdempotencyEvents,
    private readonly modules: ModulesContainer,
  ) {
    events.reportTo(new LogReporter(this.logger));
    // As early as there is an adapter: the hook has to stand before those of the application.
    host.init$.subscribe(() => {
      this.hookIntoFastify();
    });
    warnWithoutShutdownHooks(host, this.logger);
  }

  async onModuleInit(): Promise<void> {
    checkRegistrations(this.modules, IdempotencyLifecycle);
    this.routes.resolveAll();
    for (const warning of await this.store.open(this.observer)) this.observer.warned(warning);
  }

  async beforeApplicationShutdown(): Promise<void> {
    const running = await this.engine.drain();
    if (running > 0) {
      this.logger.warn(
        `${String(running)} operations were still running when "shutdownTimeoutMs" was over: their keys come free with their leases.`,
      );
    }
  }

  async onApplicationShutdown(): Promise<void> {
    await this.store.close(this.observer);
  }

  private hookIntoFastify(): void {
    // None in an application without HTTP.
    const adapter = this.host.httpAdapter as HttpAdapterHost['httpAdapter'] | undefined;
    if (adapter?.getType() === 'fastify') addRecordingHook(adapter.getInstance<FastifyInstance>());
  }
}

/** By which an application is asked to stop: by an orchestrator, and at a terminal. */
const SIGNALS = ['SIGTERM', 'SIGINT'];

/**
 * Warns of an application that a signal ends without its being closed. Once it listens: Nest does not tell whether its
 * hooks are enabled, but then they listen for signals, as handlers of the application's own do.
 */
function warnWithoutShutdownHooks(host: HttpAdapterHost, logger: LoggerService): void {
  host.listen$.subscribe(() => {
    // Code that awaits `app.listen()` may enable them first.
    setImmediate(() => {
      if (SIGNALS.some((signal) => process.listenerCount(signal) > 0)) return;
      logger.warn(
        'Nothing listens for SIGTERM or SIGINT: either ends the process with its operations under way, whose keys are blocked until their leases run out. Call app.enableShutdownHooks() before app.listen(), or app.close() in a signal handler of your own.',
      );
    });
  });
}

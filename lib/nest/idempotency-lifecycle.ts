import {
  Inject,
  Injectable,
  Logger,
  type BeforeApplicationShutdown,
  type LoggerService,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { ExternalContextCreator, HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { IdempotencyEngine } from '../core/engine/idempotency-engine.js';
import { IdempotencyMeter } from '../core/meter/idempotency-meter.js';
import { IdempotencyEvents } from '../core/record/idempotency-events.js';
import { IdempotencyStore, type StoreObserver } from '../core/store/idempotency-store.js';
import { ServiceNote } from '../core/store/service-note.js';
import { tryStore } from '../core/store/store-trial.js';
import { IdempotencyHealth } from '../observability/health/idempotency-health.js';
import {
  addRecordingHook,
  type FastifyInstance,
} from '../transports/http/response/fastify-recorder.js';
import { checkRegistrations } from './discovery/module-registrations.js';
import { useFastPath } from './fast-path.js';
import { LogReporter } from './log-reporter.js';
import type { IdempotencyModuleOptions } from './options/idempotency-options.js';
import { OPTIONS_IN_USE } from './options/idempotency.module-definition.js';
import { RabbitMqServers, type ConsumerStopListener } from './registry/rabbitmq-servers.js';
import { RouteResolver } from './registry/route-resolver.js';

const CONSUMER_STOPPED = 'rabbitmq_consumer_stopped';

@Injectable()
export class IdempotencyLifecycle
  implements OnModuleInit, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new Logger('Idempotency');
  /** Identifies this application to a store that several share. */
  private readonly observer: StoreObserver & { service?: string | undefined } = {
    replyMismatched: (error) => {
      this.events.emit({ type: 'reply_mismatched', error });
    },
    entryMissed: (recordKey, reason) => {
      this.events.emit({ type: 'journal_incomplete', recordKey, reason });
      if (this.hasMissedEntry) return;
      this.hasMissedEntry = true;
      this.observer.warned({
        code: 'journal_incomplete',
        message: `The change of record ${recordKey} is stored, its entry of the journal is not (${reason}). Look at the stream of the journal, its key, and the rights of the user. Later ones are only counted (idempotency.journal.missed).`,
      });
    },
    warned: ({ code, message }) => {
      this.health.warned(code);
      this.logger.warn(`${message} [${code}]`);
    },
  };
  private hasMissedEntry = false;
  private readonly note: ServiceNote | undefined;
  private readonly consumerStopped: ConsumerStopListener = (queue, reason) => {
    this.events.emit({ type: 'consumer_stopped', transport: 'message', queue, reason });
    this.health.warned(CONSUMER_STOPPED);
    const what = reason === 'cancelled' ? 'cancelled the consumer' : 'closed the channel';
    this.logger.error(
      `RabbitMQ has ${what} of the queue "${queue}": this process gets no more messages of it until its connection to RabbitMQ is opened again. Usually a message was not acknowledged within RabbitMQ's "consumer_timeout", or the queue was deleted. If messages stay in the queue, restart the process, or close that connection, which is then opened again. [${CONSUMER_STOPPED}]`,
    );
  };

  constructor(
    private readonly host: HttpAdapterHost,
    private readonly routes: RouteResolver,
    private readonly store: IdempotencyStore,
    private readonly engine: IdempotencyEngine,
    private readonly events: IdempotencyEvents,
    meter: IdempotencyMeter,
    private readonly health: IdempotencyHealth,
    private readonly modules: ModulesContainer,
    private readonly consumers: ExternalContextCreator,
    rabbitMq: RabbitMqServers,
    @Inject(OPTIONS_IN_USE) private readonly options: IdempotencyModuleOptions,
  ) {
    events.reportTo(new LogReporter(this.logger));
    const { service, clock } = engine;
    this.observer.service = service;
    if (store.isShared && service !== undefined) {
      this.note = new ServiceNote(store, service, clock, (warning) => {
        this.observer.warned(warning);
      });
    }
    // Not later: Nest starts microservices before it initializes modules.
    engine.telemetry.start(meter);
    // As soon as there is an adapter: the hook has to precede those of the application.
    host.init$.subscribe(() => {
      this.hookIntoFastify();
    });
    rabbitMq.reportStopsTo(this.consumerStopped);
    warnWithoutShutdownHooks(host, this.logger);
  }

  async onModuleInit(): Promise<void> {
    try {
      await this.prepare();
    } catch (error) {
      await this.engine.outcomes.close();
      this.engine.telemetry.stop();
      throw error;
    }
  }

  private async prepare(): Promise<void> {
    checkRegistrations(this.modules, IdempotencyLifecycle);
    this.routes.resolveAll();
    if (this.adapter !== undefined && this.options.http?.fastPath !== false) {
      const reason = await useFastPath(this.consumers);
      if (reason !== undefined) this.logger.log(`The fast path is off: ${reason}.`);
    }
    for (const warning of await this.engine.open()) this.observer.warned(warning);
    const warnings = await this.store.open(this.observer);
    for (const warning of warnings) this.observer.warned(warning);
    const isOutage = warnings.some((warning) => warning.isOutage);
    const isTried = !isOutage && (await this.tryStore());
    if (isTried) await this.note?.renew();
    else this.note?.schedule();
  }

  /**
   * What the user's rights or a pooler prevent stops the start, not the first request.
   * @returns whether the store executes its steps.
   */
  private async tryStore(): Promise<boolean> {
    try {
      const warning = await tryStore(this.store);
      if (warning !== undefined) this.observer.warned(warning);
      return warning === undefined;
    } catch (error) {
      await this.store.close(this.observer);
      throw error;
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    const running = await this.engine.drain();
    if (running > 0) {
      this.logger.warn(
        `${String(running)} operations were still running after "limits.shutdownTimeout". Their keys stay blocked until their leases expire.`,
      );
    }
  }

  async onApplicationShutdown(): Promise<void> {
    this.note?.stop();
    try {
      await this.store.close(this.observer);
    } finally {
      await this.engine.outcomes.close();
      this.engine.telemetry.stop();
    }
  }

  /** Undefined in an application without HTTP. */
  private get adapter(): HttpAdapterHost['httpAdapter'] | undefined {
    return this.host.httpAdapter;
  }

  private hookIntoFastify(): void {
    const { adapter } = this;
    if (adapter?.getType() === 'fastify') addRecordingHook(adapter.getInstance<FastifyInstance>());
  }
}

const SIGNALS = ['SIGTERM', 'SIGINT'];

/** Warns if a signal would not close the application. Nest's shutdown hooks show only as listeners of signals. */
function warnWithoutShutdownHooks(host: HttpAdapterHost, logger: LoggerService): void {
  host.listen$.subscribe(() => {
    // Code that awaits `app.listen()` may still enable them.
    setImmediate(() => {
      if (SIGNALS.some((signal) => process.listenerCount(signal) > 0)) return;
      logger.warn(
        'No handler for SIGTERM or SIGINT: either ends the process during its operations, whose keys stay blocked until their leases expire. Call app.enableShutdownHooks() before app.listen(), or app.close() in a signal handler of your own.',
      );
    });
  });
}

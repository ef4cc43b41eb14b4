import type { LoggerService } from '@nestjs/common';
import type { HttpAdapterHost } from '@nestjs/core';

/** By which an application is asked to stop: by an orchestrator, and at a terminal. */
const SIGNALS = ['SIGTERM', 'SIGINT'];

/**
 * Warns of an application that a signal ends without its being closed. Once it listens: Nest does not tell whether its
 * hooks are enabled, but then they listen for signals, as handlers of the application's own do.
 */
export function warnWithoutShutdownHooks(host: HttpAdapterHost, logger: LoggerService): void {
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

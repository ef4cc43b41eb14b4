import { Catch, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { KafkaContext } from '@nestjs/microservices';
import { OperationRejectedError } from 'nestjs-idempotency';
import { defer, of, switchMap, throwError, type Observable } from 'rxjs';
import { OrderRejectedError } from '../bank.js';
import { ParkedMessages } from './parked-messages.js';

/** Parks a message that can never be handled, so that its partition continues. */
@Catch()
export class ParkingFilter implements ExceptionFilter {
  constructor(private readonly parked: ParkedMessages) {}

  catch(error: unknown, host: ArgumentsHost): Observable<unknown> {
    // kafkajs fetches the message again.
    if (!isPermanent(error)) return throwError(() => error);
    const context = host.switchToRpc().getContext<KafkaContext>();
    // Nest takes an empty stream for a failure: emit a value. The offset is committed after it.
    return defer(() => this.parked.add(context, error)).pipe(switchMap(() => of(undefined)));
  }
}

function isPermanent(error: unknown): boolean {
  // No key, the key of another message, an unknown outcome: these have no time after which to retry.
  if (error instanceof OperationRejectedError) return error.retryAfterMs === undefined;
  return error instanceof OrderRejectedError;
}

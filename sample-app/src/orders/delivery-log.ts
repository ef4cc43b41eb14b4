import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  Logger,
  type NestInterceptor,
} from '@nestjs/common';
import type { RmqContext } from '@nestjs/microservices';
import { finalize, type Observable } from 'rxjs';

/** Logs each delivery of a message, and its end, whether it was handled or not. */
@Injectable()
export class DeliveryLog implements NestInterceptor {
  private readonly logger = new Logger('Deliveries');

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const rmq = context.switchToRpc().getContext<RmqContext>();
    const { redelivered } = (rmq.getMessage() as { fields: { redelivered: boolean } }).fields;
    this.logger.log(`${redelivered ? 'redelivered' : 'delivered'} ${rmq.getPattern()}`);
    return next.handle().pipe(finalize(() => this.logger.log(`settled ${rmq.getPattern()}`)));
  }
}

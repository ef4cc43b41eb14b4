/**
 * What the recipe uses of a package that is not installed: npm does not resolve its peers beside Nest 12. A test
 * installs it in an application, and compiles the recipe with the package's own types.
 */
declare module '@golevelup/nestjs-rabbitmq' {
  import type { DynamicModule } from '@nestjs/common';
  import type { Channel, ConsumeMessage, Options } from 'amqplib';

  /** A negative acknowledgement. */
  export class Nack {
    constructor(requeue?: boolean);
    get requeue(): boolean;
  }

  export function RabbitSubscribe(config: {
    readonly exchange: string;
    readonly routingKey: string;
    readonly queue: string;
    readonly queueOptions?: Options.AssertQueue;
    readonly errorHandler?: (channel: Channel, message: ConsumeMessage, error: unknown) => void;
  }): MethodDecorator;

  export const RabbitMQModule: {
    forRoot(config: {
      readonly uri: string;
      readonly exchanges: { readonly name: string; readonly type: string }[];
    }): DynamicModule;
  };
}

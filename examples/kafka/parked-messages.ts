import type { KafkaContext } from '@nestjs/microservices';

/** Sends messages to a topic that an operator looks at. */
export abstract class ParkedMessages {
  /** Resolves when the broker has confirmed the copy. */
  abstract add(context: KafkaContext, error: unknown): Promise<void>;
}

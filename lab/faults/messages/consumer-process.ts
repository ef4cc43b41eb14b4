import { LabProcess } from '../lab-process.js';
import type { ConsumerCommand, ConsumerSettings, ConsumingMessage } from './worker/settings.js';

/** One start of a consumer; it does not outlive this process. */
export class ConsumerProcess extends LabProcess<ConsumerSettings, ConsumingMessage> {
  command(command: ConsumerCommand): void {
    this.report(command);
  }
}

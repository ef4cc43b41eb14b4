import type { RecordServer } from '../world/record-server.js';
import type { World } from '../world/world.js';
import { AttemptLogs } from './attempt-log.js';
import { AttemptRules } from './attempt-rules.js';
import { EventRules } from './event-rules.js';
import { OperationRules } from './operation-rules.js';
import { OwnerRules } from './owner-rules.js';
import { RecordRules } from './record-rules.js';
import { ResponseRules } from './response-rules.js';
import { ShutdownRules } from './shutdown-rules.js';

/**
 * What the protocol demands of servers and workers, step by step. A breach is an objection even where no client is
 * harmed; what clients get is judged at the end.
 */
export class Rules {
  private readonly logs = new AttemptLogs();
  readonly attempts: AttemptRules;
  readonly operations: OperationRules;
  readonly events: EventRules;
  readonly responses: ResponseRules;
  readonly shutdowns: ShutdownRules;

  constructor(private readonly world: World) {
    this.attempts = new AttemptRules(world, this.logs);
    this.operations = new OperationRules(world, this.logs);
    this.events = new EventRules(world, this.logs);
    this.responses = new ResponseRules(world, this.logs);
    this.shutdowns = new ShutdownRules(world, this.logs);
  }

  of(server: RecordServer): { readonly records: RecordRules; readonly owners: OwnerRules } {
    return {
      records: new RecordRules(this.world, this.logs, server),
      owners: new OwnerRules(this.world, this.logs, server),
    };
  }
}

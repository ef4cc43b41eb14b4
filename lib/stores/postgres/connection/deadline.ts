import { CommandDeadline } from '../../shared/command-deadline.js';

/** The deadline of one command to PostgreSQL. */
export class Deadline extends CommandDeadline {
  protected override readonly system = 'PostgreSQL';

  protected override readonly whyUnchanged =
    'Row level security, a rule or a trigger of the table prevents it: let the user of the store SELECT, INSERT, UPDATE and DELETE every row.';
}

import { CommandDeadline } from '../../shared/command-deadline.js';

/** The deadline of one command to MySQL or MariaDB. */
export class MysqlDeadline extends CommandDeadline {
  protected override readonly system = 'MySQL';

  protected override readonly whyUnchanged =
    'A trigger of the table, or a proxy that sends reads to a replica, prevents it: let the store read and write every row on the primary.';
}

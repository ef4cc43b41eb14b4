import { describe } from '@jest/globals';
import { findMariaDb } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';
import { describeMysqlStore } from './mysql-suite.js';

const mariadb = findMariaDb();
// Without one, `npm test` has reported what is missing: test/support/provision.
const given = mariadb === undefined ? describe.skip : describe;

given(`the store on ${mariadb?.name ?? 'MariaDB'}`, () => {
  describeMysqlStore(useMysql());
});

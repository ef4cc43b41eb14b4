import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Body, Controller, InternalServerErrorException, Post } from '@nestjs/common';
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise';
import {
  type IdempotencyEvent,
  IdempotencyEvents,
  IdempotencyTransaction,
  Idempotent,
} from 'nestjs-idempotency';
import { mysqlStore } from 'nestjs-idempotency/mysql';
import { mysql2UnitOfWork, type Mysql2Transaction } from 'nestjs-idempotency/mysql2';
import { expectReplay } from '../../support/http/expectations.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { findMariaDb } from '../../support/mysql/installations.js';
import { useMysql } from '../../support/mysql/use-mysql.js';

const events: IdempotencyEvent[] = [];
let deadlocksLeft = 0;
let runs = 0;

@Controller('transfers')
class TransfersController {
  @Post()
  @Idempotent({ transaction: { conflictRetries: 1 } })
  async transfer(
    @Body() { name, fails, ends }: { name: string; fails?: boolean; ends?: string },
    @IdempotencyTransaction() transaction: Mysql2Transaction,
  ) {
    runs += 1;
    await transaction.execute('INSERT INTO transfers (name) VALUES (?)', [name]);
    if (ends !== undefined) await transaction.query(ends);
    if (fails === true) throw new InternalServerErrorException();
    if (deadlocksLeft > 0) {
      deadlocksLeft -= 1;
      const deadlock = "SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'planned', MYSQL_ERRNO = 1213";
      await transaction.query(deadlock);
    }
    const [[row]] = await transaction.query<RowDataPacket[]>('SELECT LAST_INSERT_ID() AS id');
    return { id: Number(row?.id) };
  }
}

const given = findMariaDb() === undefined ? describe.skip : describe;

given('A transactional route on MySQL', () => {
  const server = useMysql();
  let pool: Pool;
  let app: TestApp;

  beforeAll(async () => {
    const url = await server.newDatabase();
    pool = createPool({ uri: url, multipleStatements: true });
    for (const end of ['COMMIT', 'ROLLBACK', 'START TRANSACTION'])
      await pool.query(`CREATE PROCEDURE \`${end}\`() BEGIN ${end}; END`);
    await pool.query(
      'CREATE TABLE transfers (id integer AUTO_INCREMENT PRIMARY KEY, name varchar(64)) ENGINE = InnoDB',
    );
    await pool.query('CREATE TABLE others (id integer) ENGINE = InnoDB');
    const store = mysqlStore({ url });
    await store.migrate();
    app = await startApp({
      platform: 'express',
      controllers: [TransfersController],
      store,
      options: {
        unitOfWork: mysql2UnitOfWork(pool),
        storeErrors: { commandTimeout: 10_000, saveTimeout: 10_000 },
      },
    });
    app.nest.get(IdempotencyEvents, { strict: false }).subscribe((event) => events.push(event));
  });
  beforeEach(() => {
    runs = 0;
    events.length = 0;
  });
  afterAll(async () => {
    await app.close();
    await pool.end();
  });

  async function made(name: string): Promise<number> {
    const text = 'SELECT count(*) AS made FROM transfers WHERE name = ?';
    const [[row]] = await pool.query<RowDataPacket[]>(text, [name]);
    return Number(row?.made);
  }

  it('commits its write with the record, and replays the response byte for byte', async () => {
    const scenario = app.scenario();
    const first = await scenario.post('/transfers', { json: { name: 'one' } });
    expect(first.status).toBe(201);
    expectReplay(await scenario.post('/transfers', { json: { name: 'one' } }), first);
    expect(await made('one')).toBe(1);
  });

  it('commits neither after an error, and runs again', async () => {
    const scenario = app.scenario();
    const json = { name: 'none', fails: true };
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      expect((await scenario.post('/transfers', { json })).status).toBe(500);
      expect(runs).toBe(attempt);
      expect(await made('none')).toBe(0);
    }
  });

  it.each([
    'CREATE TABLE IF NOT EXISTS ends_it (id integer)',
    'TRUNCATE TABLE others',
    'LOCK TABLES transfers WRITE; UNLOCK TABLES',
    'CALL `COMMIT`()',
    'CALL `START TRANSACTION`()',
    'SELECT 1; COMMIT',
    'SELECT 1; COMMIT; START TRANSACTION',
    "PREPARE ending FROM 'COMMIT'; EXECUTE ending",
  ])('whose handler commits by itself runs once: %s', async (ends) => {
    const scenario = app.scenario();
    const json = { name: `ended by ${ends}`.slice(0, 64), ends };
    const first = await scenario.post('/transfers', { json });
    expect(first.status).toBe(201);
    expect(await made(json.name)).toBe(1);
    expectReplay(await scenario.post('/transfers', { json }), first);
    expect({ runs, made: await made(json.name) }).toEqual({ runs: 1, made: 1 });
    const types = events.splice(0).map(({ type }) => type);
    expect(types).toEqual(expect.arrayContaining(['committed_apart', 'completed']));
    const [[row]] = await pool.query<RowDataPacket[]>(
      'SELECT count(*) AS locks FROM idempotency_records_locks',
    );
    expect(Number(row?.locks)).toBe(0);
  });

  it.each(['CALL `ROLLBACK`()', 'SELECT 1; ROLLBACK', 'SELECT 1; ROLLBACK; START TRANSACTION'])(
    'whose handler rolls back by itself has no outcome: %s',
    async (ends) => {
      const scenario = app.scenario();
      const json = { name: `undone by ${ends}`, ends };
      for (let run = 1; run <= 2; run += 1) {
        expect((await scenario.post('/transfers', { json })).status).toBe(503);
        expect({ runs, made: await made(json.name) }).toEqual({ runs: run, made: 0 });
      }
      expect(events.splice(0).map(({ type }) => type)).toContain('rolled_back');
    },
  );

  it('runs again after a deadlock, with one effect', async () => {
    deadlocksLeft = 1;
    const { status } = await app.scenario().post('/transfers', { json: { name: 'again' } });
    expect(status).toBe(201);
    expect(runs).toBe(2);
    expect(await made('again')).toBe(1);
  });

  it('has one effect under duplicates at once', async () => {
    const scenario = app.scenario();
    const all = Array.from({ length: 8 }, () =>
      scenario.post('/transfers', { json: { name: 'eight' } }),
    );
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    expect(statuses).toContain(201);
    expect(statuses.filter((status) => status !== 201 && status !== 409)).toEqual([]);
    expect(runs).toBe(1);
    expect(await made('eight')).toBe(1);
  });
});

import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiProperty, ApiQuery } from '@nestjs/swagger';
import { demoTokens } from '../auth/user.js';
import { Ledger } from './ledger.js';

export class LedgerView {
  @ApiProperty({
    description: 'How often each user was charged, independent of the API’s responses.',
    type: 'object',
    additionalProperties: { type: 'integer' },
    example: { alice: 1, bob: 0 },
  })
  readonly charges!: Record<string, number>;

  @ApiProperty({ description: 'The number of duplicate charges.', type: 'integer', example: 0 })
  readonly chargedTwice!: number;
}

/** Shows the number of charges to every visitor. A real provider keeps its ledger private. */
@Controller('ledger')
export class LedgerController {
  constructor(private readonly ledger: Ledger) {}

  /** @param description - counts only the charges of payments with this description. */
  @Get()
  @ApiQuery({ name: 'description', required: false })
  @ApiOkResponse({ type: LedgerView })
  async count(@Query('description') description?: string): Promise<LedgerView> {
    const all = (await this.ledger.entries()).filter(
      (entry) =>
        entry.kind === 'charge' && (description === undefined || entry.description === description),
    );
    const ofUser = (id: string) => all.filter(({ userId }) => userId === id).length;
    const charges = Object.fromEntries([...demoTokens.values()].map(({ id }) => [id, ofUser(id)]));
    const orders = new Set(all.map(({ reference }) => reference));
    return { charges, chargedTwice: all.length - orders.size };
  }
}

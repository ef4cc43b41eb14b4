import { IsInt, IsISO4217CurrencyCode, IsString, Max, MaxLength, Min } from 'class-validator';

/** An order as the shop publishes it. */
export class PlacedOrderDto {
  /** The shop's order number. */
  @IsString()
  @MaxLength(100)
  id!: string;

  /** The payer. */
  @IsString()
  @MaxLength(100)
  customer!: string;

  /** In minor units: 4999 is 49.99 EUR. */
  @IsInt()
  @Min(1)
  @Max(99_999_999)
  amount!: number;

  @IsISO4217CurrencyCode()
  currency!: string;
}

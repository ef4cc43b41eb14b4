import { IsInt, IsISO4217CurrencyCode, IsString, Max, MaxLength, Min } from 'class-validator';

/** What the shop tells of an order. */
export class PlacedOrderDto {
  /** The shop's number of the order. */
  @IsString()
  @MaxLength(100)
  id!: string;

  /** Who pays. */
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

// Reads a Flight stream of a fabric, such as the state of a running job, and prints its rows as CSV.
//
//	read_flight HOST:PORT state JOB NODE STATE        (the token in FABRIC_TOKEN)
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow/csv"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: read_flight HOST:PORT PATH...")
		os.Exit(2)
	}
	if err := read(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(address string, path []string) error {
	client, err := flight.NewClientWithMiddleware(address, nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(),
		"authorization", "Bearer "+os.Getenv("FABRIC_TOKEN"))
	info, err := client.GetFlightInfo(ctx,
		&flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: path})
	if err != nil {
		return err
	}
	schema, err := flight.DeserializeSchema(info.Schema, nil)
	if err != nil {
		return err
	}
	out := csv.NewWriter(os.Stdout, schema, csv.WithHeader(true))
	for _, endpoint := range info.Endpoint {
		// An agent also serves what others hold; endpoint.Location says where it lies.
		if err := readEndpoint(ctx, client, endpoint, out); err != nil {
			return err
		}
	}
	// Of a state or a dataset: its version, which of a state is the checkpoint.
	fmt.Fprintf(os.Stderr, "%s\n", info.AppMetadata)
	return out.Error()
}

func readEndpoint(
	ctx context.Context, client flight.Client, endpoint *flight.FlightEndpoint, out *csv.Writer,
) error {
	stream, err := client.DoGet(ctx, endpoint.Ticket)
	if err != nil {
		return err
	}
	rows, err := flight.NewRecordReader(stream)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		if err := out.Write(rows.RecordBatch()); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return rows.Err()
}

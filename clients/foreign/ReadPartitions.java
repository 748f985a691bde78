import org.apache.arrow.flight.CallHeaders;
import org.apache.arrow.flight.FlightCallHeaders;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightEndpoint;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.HeaderCallOption;
import org.apache.arrow.flight.Location;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;

/**
 * Reads what an exchange of a job holds from any agent of a fabric, with Arrow's Java library alone.
 *
 * <p>ReadPartitions HOST PORT JOB PATH (the token in FABRIC_TOKEN)
 */
public final class ReadPartitions {
  public static void main(String[] args) throws Exception {
    Location agent = Location.forGrpcInsecure(args[0], Integer.parseInt(args[1]));
    CallHeaders headers = new FlightCallHeaders();
    headers.insert("authorization", "Bearer " + System.getenv("FABRIC_TOKEN"));
    HeaderCallOption token = new HeaderCallOption(headers);
    FlightDescriptor descriptor = FlightDescriptor.path("job", args[2], args[3]);
    try (BufferAllocator memory = new RootAllocator();
        FlightClient client = FlightClient.builder(memory, agent).build()) {
      for (FlightEndpoint endpoint : client.getInfo(descriptor, token).getEndpoints()) {
        // An agent also serves what others hold; getLocations() says where it could be got directly.
        long rows = 0;
        try (FlightStream stream = client.getStream(endpoint.getTicket(), token)) {
          while (stream.next()) {
            rows += stream.getRoot().getRowCount();
          }
          System.out.printf(
              "partition %s: %d rows of %s%n",
              new String(endpoint.getAppMetadata()), rows, stream.getSchema());
        }
      }
    }
  }
}

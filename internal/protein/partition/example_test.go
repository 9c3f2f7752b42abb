package partition_test

import (
	"fmt"
	"log"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/internal/protein/partition"
	"github.com/weft-run/weft/workload/protein"
)

// Crambin for two devices, of which one is twice as fast: clusters cut fewer contacts than
// ranges of the chain.
func ExampleContactClusters() {
	crambin, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		log.Fatal(err)
	}
	contacts, err := network.Contacts(crambin.Coordinates(), network.ContactCutoff)
	if err != nil {
		log.Fatal(err)
	}
	rates := []float64{2, 1}
	clusters, err := partition.ContactClusters(contacts, rates)
	if err != nil {
		log.Fatal(err)
	}
	ranges, err := partition.ResidueRanges(crambin.Len(), rates)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(clusters.Sizes(), clusters.Cut(contacts), "contacts cut,", clusters.Communication(contacts), "bytes a step")
	fmt.Println(ranges.Sizes(), ranges.Cut(contacts), "contacts cut,", ranges.Communication(contacts), "bytes a step")
	// Output:
	// [32 14] 24 contacts cut, 1152 bytes a step
	// [31 15] 49 contacts cut, 2352 bytes a step
}

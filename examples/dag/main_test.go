package main

func Example() {
	main()
	// Output: 84 <nil>
}
